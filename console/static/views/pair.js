// Two sessions side by side, for example a session and its branch.

import { cost, count, duration, model, REASON } from "../format.js";
import { html } from "../html.js";
import { Guard } from "../parts/guard.js";
import { Followed } from "../session.js";
import { useOwned } from "../state.js";
import { FollowedView } from "./session.js";

export function PairView({ bus, ids }) {
  const one = useOwned(() => new Followed(bus, ids[0]), [bus, ids[0]]);
  const other = useOwned(() => new Followed(bus, ids[1]), [bus, ids[1]]);
  const both = [one, other];
  return html`<section class="pair" aria-label="Two sessions side by side">
    ${both.every((f) => f?.loaded) && html`<${Guard}><${Runs} ids=${ids} folds=${both.map((f) => f.fold)} /></${Guard}>`}
    <div class="two">${ids.map((id, i) => html`<${FollowedView} key=${id} bus=${bus} id=${id} followed=${both[i]} beside />`)}</div></section>`;
}

const FACTS = [
  ["model", (f) => model(f.config.model)], ["ended", (f) => REASON[f.lastEnd?.terminationReason] ?? f.lastEnd?.terminationReason],
  ["turns", (f) => f.lastEnd?.turns], ["time", (f) => f.lastEnd && duration(f.lastEnd.durationMs)],
  ["tokens", (f) => f.lastEnd && count(f.lastEnd.usage?.totalTokens)], ["cost", (f) => f.lastEnd && cost(f.lastEnd.usage?.cost?.total)],
];

/** The outcomes of the newest runs of both. */
function Runs({ ids, folds }) {
  return html`<details open><summary>The newest runs</summary><div class="scroll"><table><thead><tr><th scope="col">of</th>
    ${FACTS.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>${folds.map((f, i) => html`<tr><th scope="row">${ids[i]}</th>
    ${FACTS.map(([, of]) => html`<td>${of(f) ?? "–"}</td>`)}</tr>`)}</tbody></table></div></details>`;
}
