// JSON with each number as its writer wrote it. A JavaScript number cannot keep 12345678901234567890 or 1e400, and does
// not tell -0 from 0 or 1.0 from 1, so who approves a call would see, and send back, other arguments than it has.

import { random } from "./stored.js";

// Begins a string in which a number passes through JSON. It is random, so that no string of others begins so.
const MARK = `#${random()}#`;
const MARKED = new RegExp(`"${MARK}([^"]*)"`, "g");
const TOKEN = /"|-?\d[\d.eE+-]*/g; // the beginning of a string, or a number

let marking = false;

/**
 * A number that JavaScript would write in another way: text is what its writer wrote. It computes as a Number does.
 * JSON.stringify writes the text, as a string where the platform has no JSON.rawJSON; stringify writes it everywhere.
 */
export class ExactNumber extends Number {
  constructor(text) {
    super(text);
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return marking ? MARK + this.text : JSON.rawJSON?.(this.text) ?? this.text;
  }
}

/** Like JSON.parse, but a number that JavaScript would write in another way is an ExactNumber. @param {string} json */
export function parse(json) {
  const value = JSON.parse(json);
  const marked = mark(json);
  if (marked === json) return value;
  const top = [JSON.parse(marked)];
  const all = [top]; // instead of a reviver, which overflows the stack where the value is nested deeply
  for (const parent of all) {
    for (const [key, v] of Object.entries(parent)) {
      if (typeof v === "string" && v.startsWith(MARK)) parent[key] = new ExactNumber(v.slice(MARK.length));
      else if (Object(v) === v) all.push(v);
    }
  }
  return top[0];
}

/** Like JSON.stringify, with the text of each ExactNumber. */
export function stringify(value, space) {
  marking = true;
  try {
    return JSON.stringify(value, null, space)?.replace(MARKED, "$1");
  } finally {
    marking = false;
  }
}

/** Makes marked strings of the numbers in a valid JSON text that JavaScript would write in another way. */
function mark(json) {
  let marked = "";
  let from = 0;
  TOKEN.lastIndex = 0;
  for (let token; (token = TOKEN.exec(json)); ) {
    const [n] = token;
    if (n === '"') {
      TOKEN.lastIndex = endOfString(json, token.index);
    } else if (String(Number(n)) !== n) {
      marked += `${json.slice(from, token.index)}"${MARK}${n}"`;
      from = TOKEN.lastIndex;
    }
  }
  return marked + json.slice(from);
}

/** Returns the index after the string that begins at start. A regular expression overflows the stack for a long one. */
function endOfString(json, start) {
  for (let end = start; ; ) {
    end = json.indexOf('"', end + 1);
    let escape = end;
    while (json[escape - 1] === "\\") escape--;
    if ((end - escape) % 2 === 0) return end + 1;
  }
}
