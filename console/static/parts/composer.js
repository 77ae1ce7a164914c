// The input of a session.

import { doing } from "../state.js";
import { html } from "../html.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const MODES = {
  prompt: ["Prompt", "starts its own run, after the current one"], steer: ["Steer", "reaches the model before its next call"],
  followUp: ["Follow up", "reaches the model when the run would end"], interrupt: ["Interrupt", "ends the current run and starts another"],
};

const KINDS = /^image\/(png|jpeg|gif|webp)$/; // types that models accept

/** A picture that was pasted or dropped. */
async function picture(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return { type: "image", mimeType: file.type, data: btoa(text) };
}

export function Composer({ session, running, fresh, draft, quiet }) {
  const [text, setText] = useState("");
  const [images, setImages] = useState([]);
  const [chosen, setMode] = useState("");
  const box = useRef();
  const mode = running ? chosen || "steer" : "prompt";
  useLayoutEffect(() => quiet || box.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    if (!draft.text) return;
    setText(draft.text);
    box.current?.focus();
  }, [draft]);
  const send = async (how = mode) => {
    const words = text.replace(/^\s*\n|\s+$/g, "");
    const input = { ...(words && { text: words }), ...(images.length && { images }) };
    if (!input.text && !input.images) return;
    setText("");
    setImages([]);
    const sent = await doing(MODES[how][0], () => (how === "prompt" || how === "interrupt"
      ? session.prompt(input, how === "interrupt" ? { whenBusy: "interrupt" } : {}) : session[how](input)));
    if (!sent) setText(text), setImages(images); // keep the input if sending has failed
  };
  const pressed = (e) => {
    if (e.isComposing) return;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      send(e.altKey ? "followUp" : mode);
    } else if (e.key === "Escape" && running && e.ctrlKey) {
      abort();
    }
  };
  const abort = () => doing("Abort", () => session.abort("aborted in the console"));
  const pasted = async (e) => {
    const files = [...(e.clipboardData ?? e.dataTransfer).files].filter((f) => KINDS.test(f.type));
    if (files.length === 0) return;
    e.preventDefault();
    const added = await Promise.all(files.map(picture));
    setImages((list) => [...list, ...added]);
  };
  return html`<form class="composer" aria-label="Message" onSubmit=${(e) => (e.preventDefault(), send())} onDrop=${pasted} onDragOver=${(e) => e.preventDefault()}>
    ${images.length > 0 && html`<div class="images">${images.map((img, i) => html`<span><img alt="Picture ${i + 1}" src=${`data:${img.mimeType};base64,${img.data}`} />
      <button type="button" aria-label="Remove picture ${i + 1}" onClick=${() => setImages(images.filter((x) => x !== img))}>×</button></span>`)}</div>`}
    <textarea ref=${box} rows="3" aria-label="What to say" value=${text} placeholder=${fresh ? "What should the agent do?" : running ? "Steer the run, or choose another way"
      : "Write a message"} onInput=${(e) => setText(e.target.value)} onKeyDown=${pressed} onPaste=${pasted}></textarea>
    <div class="buttons">${running && html`<select aria-label="How it is said" value=${mode} onChange=${(e) => setMode(e.target.value)}>${Object.entries(MODES).map(
      ([value, [name, what]]) => html`<option value=${value} title=${what} selected=${value === mode}>${name}</option>`)}</select>`}
      <button class="primary" title="Enter">${MODES[mode][0]}</button>
      ${running && html`<button type="button" class="danger" title="Ctrl+Escape" onClick=${abort}>Abort</button>`}</div></form>`;
}
