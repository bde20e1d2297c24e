// Frames and values of docs/wire.md, written from that page alone: no package, nothing but Node.

import { Num, Violation, parse } from "./text.mjs";

export { Num, Violation };

export class NdArray {
  constructor(dtype, shape, data) {
    Object.assign(this, { dtype, shape, data });
  }
}

export class CannotSend extends Error {}

export const MAX_FRAME = 256 * 2 ** 20;
const MAX_ARRAYS = 65536;
const KEY = "__numpy_array__";
const ITEM_BYTES = { bool: 1, complex64: 8, complex128: 16, float16: 2, float32: 4, float64: 8 };

const aligned = (offset) => Math.ceil(offset / 64) * 64;
const plain = (value) => (value instanceof Num ? Number(value.text) : value);

function itemBytes(dtype) {
  if (typeof dtype !== "string" || dtype.length > 32) throw new Violation("a dtype is a text of at most 32 characters");
  const integer = /^u?int(8|16|32|64)$/.exec(dtype);
  const code = /^[<>|]?(?:([biufcSU])(\d+)|[mM]8(?:\[\w+\])?)$/.exec(dtype);
  if (dtype in ITEM_BYTES) return ITEM_BYTES[dtype];
  if (integer) return Number(integer[1]) / 8;
  if (/^(datetime|timedelta)64(\[\w+\])?$/.test(dtype) || (code && !code[1])) return 8;
  if (code) return Number(code[2]) * (code[1] === "U" ? 4 : 1);
  throw new Violation(`unknown dtype ${dtype}`);
}

function arrayBytes(dtype, shape) {
  if (!Array.isArray(shape) || shape.length > 32) throw new Violation("a shape is a list of at most 32 numbers");
  const sizes = shape.map(plain);
  if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) throw new Violation("a shape has no negative numbers");
  return [sizes, sizes.reduce((product, size) => product * size, itemBytes(dtype))];
}

const unescaped = (members) => new Map(members.get("pairs"));
const hasExactly = (members, ...keys) => members.size === keys.length && keys.every((key) => members.has(key));
const utf8 = (bytes) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Violation("not UTF-8");
  }
};

function fromJson(body) {
  let arrays = 0;
  return parse(utf8(body), (members) => {
    if (members.get(KEY) === "pairs" && hasExactly(members, KEY, "pairs")) return unescaped(members);
    if (members.get(KEY) !== true || !["data", "dtype", "shape"].every((key) => members.has(key))) return members;
    const [shape, size] = arrayBytes(members.get("dtype"), members.get("shape"));
    const data = Buffer.from(members.get("data"), "base64");
    if (data.length !== size || (arrays += 1) > MAX_ARRAYS) throw new Violation("data and shape do not fit");
    return new NdArray(members.get("dtype"), shape, data);
  });
}

function fromBinary(body) {
  if (body.length < 8 || body.readUInt32BE(0) !== 0xff010000) throw new Violation("another layout");
  let end = 8 + body.readUInt32BE(4);
  if (end > body.length) throw new Violation("the head ends behind the body");
  const head = utf8(body.subarray(8, end));
  let arrays = 0;
  const take = (size) => {
    const start = aligned(end);
    if (body.subarray(end, start).some((byte) => byte !== 0)) throw new Violation("padding that is not zero");
    end = start + size;
    if (end > body.length || (arrays += 1) > MAX_ARRAYS) throw new Violation("the body ends before its buffers do");
    return body.subarray(start, end);
  };
  const message = parse(head, (members) => {
    if (!members.has(KEY)) return members;
    const kind = members.get(KEY);
    if (kind === "pairs" && hasExactly(members, KEY, "pairs")) return unescaped(members);
    if (kind === "bytes" && hasExactly(members, KEY, "size")) return take(plain(members.get("size")));
    if (kind !== "buffer" || !hasExactly(members, KEY, "dtype", "shape")) throw new Violation("an unknown descriptor");
    const [shape, size] = arrayBytes(members.get("dtype"), members.get("shape"));
    return new NdArray(members.get("dtype"), shape, take(size));
  });
  if (arrays === 0) take(0);
  if (end !== body.length) throw new Violation("bytes behind the last buffer");
  return message;
}

/** The message of a body: objects as Map, numbers as Num, arrays as NdArray, bytes as Buffer. */
export function decode(body) {
  const message = body[0] === 0xff ? fromBinary(body) : fromJson(body);
  if (!(message instanceof Map)) throw new Violation("a message is an object");
  return message;
}

// ------------------------------------------------------------------------------------------------ values -> bodies

function write(value, place, path) {
  const items = (list) => list.map((item, index) => write(item, place, `${path}[${index}]`)).join(", ");
  if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value);
  if (value instanceof Num) return value.text;
  if (typeof value === "number") return String(value);
  if (value instanceof NdArray || value instanceof Uint8Array) return place(value, path);
  if (Array.isArray(value)) return `[${items(value)}]`;
  const members = value instanceof Map ? [...value] : value?.constructor === Object ? Object.entries(value) : null;
  if (members === null) throw new CannotSend(`${path}: ${typeof value} cannot travel`);
  if (members.some(([key]) => key === KEY)) return `{"${KEY}": "pairs", "pairs": [${items(members)}]}`;
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}: ${write(item, place, `${path}.${key}`)}`).join(", ")}}`;
}

/** One frame. Binary where `binary` says that the peer reads it and there is something to gain. */
export function encode(message, binary, root) {
  const buffers = [];
  const text = write(message, (value, path) => {
    if (value instanceof NdArray) {
      const rest = `"dtype": ${JSON.stringify(value.dtype)}, "shape": [${value.shape.join(", ")}]}`;
      if (!binary) return `{"${KEY}": true, "data": "${value.data.toString("base64")}", ${rest}`;
      buffers.push(value.data);
      return `{"${KEY}": "buffer", ${rest}`;
    }
    if (!binary) throw new CannotSend(`${path}: bytes cannot travel in JSON`);
    buffers.push(value);
    return `{"${KEY}": "bytes", "size": ${value.length}}`;
  }, root);
  const pieces = [Buffer.from(text)];
  let size = pieces[0].length;
  if (buffers.length > 0) {
    pieces.unshift(Buffer.from([0xff, 1, 0, 0]), Buffer.alloc(4));
    pieces[1].writeUInt32BE(size);
    size += 8;
    for (const buffer of buffers) {
      pieces.push(Buffer.alloc(aligned(size) - size), buffer);
      size = aligned(size) + buffer.length;
    }
  }
  const header = Buffer.alloc(4);
  header.writeUInt32BE(size);
  return Buffer.concat([header, ...pieces]);
}

/** The bodies that a socket brings, one after the other, until its end. */
export async function* bodies(socket) {
  let parts = [];
  let have = 0;
  const take = (size) => {
    const all = Buffer.concat(parts);
    parts = [all.subarray(size)];
    have -= size;
    return all.subarray(0, size);
  };
  let expected = null;
  for await (const chunk of socket) {
    parts.push(chunk);
    have += chunk.length;
    for (;;) {
      if (expected === null && have >= 4) {
        expected = take(4).readUInt32BE();
        if (expected === 0 || expected > MAX_FRAME) throw new Violation(`a frame of ${expected} bytes`);
      }
      if (expected === null || have < expected) break;
      yield take(expected);
      expected = null;
    }
  }
}
