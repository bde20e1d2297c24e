// A model server in another language than the rest, written from docs/wire.md alone. It serves the echo policy.
//
//   node model.mjs [PORT]            prints READY <port>, and serves until it is stopped
import net from "node:net";

import { CannotSend, NdArray, Violation, bodies, decode, encode } from "./wire.mjs";

/** The echo policy. What it has of its own, without the constructor, are its methods. */
class Policy {
  remembered = null;
  reset_model() {
    this.remembered = null;
    return null;
  }
  get_action() {
    return new NdArray("float32", [30, 14], Buffer.alloc(30 * 14 * 4));
  }
  echo(value) {
    return value;
  }
  echo_args(...args) {
    return { args, kwargs: this.keywords };
  }
  remember(value) {
    this.remembered = value;
    return null;
  }
  recall() {
    return this.remembered;
  }
  fail(message) {
    throw new Error(message);
  }
  unsendable() {
    return { found: { items: [1, new Set([2, 3])] } };
  }
  blob(size) {
    const count = Number(size.text);
    return new NdArray("uint8", [count], Buffer.from(Array.from({ length: count }, (_, index) => index % 251)));
  }
  async sleep(seconds) {
    await new Promise((done) => setTimeout(done, 1000 * Number(seconds.text)));
    return seconds;
  }
  eval_check_methods() {
    return METHODS;
  }
}

const METHODS = Object.getOwnPropertyNames(Policy.prototype).filter((name) => name !== "constructor");

const WIRE = ["binary", "json"];

/** A request that no method sees. */
class Refused extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** What one connection has told of itself. */
class Session {
  policy = new Policy();
  id = 0;
  episode = null;
  failed = false;

  /** Takes note of a request that carries an id; what its reply will carry besides `res` or `error`. */
  count(request) {
    if (!request.has("id")) return {};
    const number = Number(request.get("id").text);
    if (number !== this.id + 1) throw new Violation(`the id ${number} after ${this.id}`);
    this.id = number;
    const more = { id: number, wire: WIRE, kind: "ok" };
    return number === 1 ? { ...more, policy: { name: "node", methods: METHODS, attributes: [] } } : more;
  }

  async call(request) {
    const name = request.get("cmd");
    if (request.has("id")) {
      if (name === "__bye__") return null;
      if (request.has("follows") && this.failed) throw new Refused("skipped", `${name}: the request before it failed`);
      const episode = request.get("episode_id") ?? null;
      const begins = name === "reset_model" && request.has("episode");
      if (!begins && episode !== null && episode !== this.episode) throw new Refused("stale_episode", `${episode} is not active`);
      if (name === "reset_model") this.episode = begins ? episode : null;
      if (name === "__get__") throw new Refused("unknown_method", "there are no attributes here");
    }
    if (!METHODS.includes(name)) throw new Refused("unknown_method", `there is no method ${name}`);
    const obs = request.get("obs") ?? null;
    const stock = obs instanceof Map && obs.has("_args") ? obs.get("_args") : obs === null ? [] : [obs];
    const args = request.get("args") ?? stock;
    this.policy.keywords = request.get("kwargs") ?? {};
    const takes = this.policy[name].length;
    if (takes !== args.length && name !== "echo_args") throw new Refused("bad_arguments", `${name} takes ${takes} arguments`);
    return this.policy[name](...args);
  }

  async answer(request) {
    const more = this.count(request);
    const binary = request.has("id") && (request.get("accept") ?? []).includes("binary");
    if (request.has("id") && request.get("cmd") === "__bye__") more.kind = "bye";
    try {
      const frame = encode({ res: await this.call(request), ...more }, binary, "");
      this.failed = false;
      return frame;
    } catch (error) {
      this.failed = true;
      const kind = error instanceof Refused ? error.kind : error instanceof CannotSend ? "cannot_send" : "policy_error";
      if (request.has("id")) more.kind = kind;
      return encode({ error: error.message, traceback: error.stack, ...more }, false);
    }
  }
}

async function serve(socket) {
  const session = new Session();
  socket.setNoDelay(true);
  try {
    for await (const body of bodies(socket)) {
      const request = decode(body);
      socket.write(await session.answer(request));
      if (session.id > 0 && request.get("cmd") === "__bye__") break;
    }
    socket.end();
  } catch (error) {
    if (!(error instanceof Violation)) return socket.destroy();
    const more = session.id > 0 ? { id: session.id, wire: WIRE, kind: "protocol_error" } : {};
    socket.end(encode({ error: error.message, traceback: "", ...more }, false));
  }
}

const server = net.createServer((socket) => {
  socket.on("error", () => socket.destroy());
  serve(socket);
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => console.log(`READY ${server.address().port}`));
