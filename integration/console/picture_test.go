//go:build unix

package console_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// paste makes pictures of noise in the page, of about so many bytes, and pastes them into the box.
const paste = `async (sizes) => {
	const data = new DataTransfer();
	for (const size of sizes) {
		const side = Math.ceil(Math.sqrt(size / 3));
		const canvas = Object.assign(document.createElement("canvas"), { width: side, height: side });
		const context = canvas.getContext("2d");
		const pixels = context.createImageData(side, side);
		for (let i = 0; i < pixels.data.length; i += 65536) crypto.getRandomValues(pixels.data.subarray(i, i + 65536));
		for (let i = 3; i < pixels.data.length; i += 4) pixels.data[i] = 255;
		context.putImageData(pixels, 0, 0);
		const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
		data.items.add(new File([blob], "picture.png", { type: "image/png" }));
	}
	data.items.add(new File(["<svg/>"], "picture.svg", { type: "image/svg+xml" }));
	document.querySelector(".composer textarea").dispatchEvent(
		new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	return true;
}`

// A photograph is pasted, which is too big for a command: it is uploaded and shown, here and in another window. A small
// one travels in the command; what no model takes is left out; one can be taken off again.
func TestPastedPictures(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("a nice one"))})
	page, second := w.open("#/s/s1"), w.open("#/s/s1")
	send := func(runs int, sizes, text string) *schemas.UserMessage {
		t.Helper()
		page.until("the box is there", "document.querySelector('.composer textarea')")
		eval[bool](page, "("+paste+")("+sizes+")")
		page.until("the pictures are there", "document.querySelectorAll('.composer .images img').length === "+sizes+".length")
		if sizes != "[2e3]" {
			page.click(".composer .images button", "×")
		}
		page.types(box, text+enter)
		for _, win := range []*window{page, second} {
			win.until("the picture is shown", "document.querySelectorAll('.message.user img').length === "+itoa(runs)+
				" && [...document.querySelectorAll('.message.user img')].every((i) => i.complete && i.naturalWidth > 0)")
			win.until("the run has ended", "document.querySelectorAll('.end').length === "+itoa(runs))
		}
		log := w.LogOf(t, "s1")
		for _, end := range system.DataOf[*schemas.MessageEnd](log) {
			if m, ok := end.Message.Message.(*schemas.UserMessage); ok && m.Content.JoinText() == text {
				return m
			}
		}
		t.Fatalf("the log has no message %q", text)
		return nil
	}
	bytes := func(m *schemas.UserMessage) (n int) {
		for _, c := range m.Content {
			if image, ok := c.(schemas.Image); ok {
				n += len(image.Data)
			}
		}
		return n
	}
	if n := bytes(send(1, "[2e3]", "small")); n < 1000 || n > 100_000 {
		t.Errorf("the small picture has %d bytes", n)
	}
	if n := w.Messages(t, "OBJ_agent_inputs", "$O.agent_inputs.>"); n != 0 {
		t.Errorf("a small input was uploaded: %d messages", n)
	}
	if n := bytes(send(2, "[2e3, 1.5e6]", "large")); n < 1_500_000 {
		t.Errorf("the large picture has %d bytes", n)
	}
	if n := w.Messages(t, "OBJ_agent_inputs", "$O.agent_inputs.>"); n < 10 {
		t.Errorf("a large input was not uploaded: %d messages", n)
	}
}
