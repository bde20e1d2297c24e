// JSON texts as docs/wire.md has them: JSON, and the bare words NaN, Infinity and -Infinity.
//
// Numbers are kept as the text they came in (`Num`), because JavaScript knows neither 1.0 nor whole numbers beyond 2^53.

export class Num {
  constructor(text) {
    this.text = text;
  }
}

export class Violation extends Error {}

const MAX_DEPTH = 128;
const MAX_DIGITS = 4300;

/** The value of one JSON text; objects are Maps. `close(object)` is called as each object ends, in the order of the text, and may replace it. */
export function parse(text, close) {
  let at = 0;
  const bad = (what) => new Violation(`${what} at character ${at} of the text`);
  const blank = () => {
    while (" \t\r\n".includes(text[at] ?? "x")) at += 1;
  };
  const expect = (sign) => {
    if (text[at] !== sign) throw bad(`no ${sign}`);
    at += 1;
  };
  const word = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found?.[0];
  };
  const string = () => {
    const found = word(/"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
    if (found === undefined) throw bad("no string");
    return JSON.parse(found);
  };
  const series = (end, item) => {
    at += 1;
    blank();
    if (text[at] === end) return void (at += 1);
    for (;;) {
      item();
      blank();
      if (text[at] !== ",") return expect(end);
      at += 1;
      blank();
    }
  };
  const value = (depth) => {
    blank();
    if (text[at] === '"') return string();
    if (depth > MAX_DEPTH && "[{".includes(text[at] ?? " ")) throw bad("nested too deeply");
    if (text[at] === "[") {
      const items = [];
      series("]", () => items.push(value(depth + 1)));
      return items;
    }
    if (text[at] === "{") {
      const members = new Map();
      series("}", () => {
        const key = string();
        if (members.has(key)) throw bad(`the key ${key} for the second time`);
        blank();
        expect(":");
        members.set(key, value(depth + 1));
      });
      return close(members);
    }
    const name = word(/null|true|false/y);
    if (name) return JSON.parse(name);
    const number = word(/-?(?:(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/y);
    if (number === undefined) throw bad("no value");
    if (/^-?\d+$/.test(number) && number.length > MAX_DIGITS) throw bad("too many digits");
    return new Num(number);
  };
  const result = value(1);
  blank();
  if (at !== text.length) throw bad("more than one value");
  return result;
}
