// A simulator in another language than the rest, written from docs/wire.md alone.
//
//   node simulator.mjs HOST PORT     plays one short episode with `eval-model --policy_name echo`, or any other policy
//
// It says when it has to wait, and at the end, in one line of JSON, what it met. EVAL_LINK_TOKEN is shown where it is set.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import net from "node:net";

import { NdArray, bodies, decode, encode } from "./wire.mjs";

const [host, port] = process.argv.slice(2);
const token = process.env.EVAL_LINK_TOKEN;
const socket = net.connect(Number(port), host);
socket.setNoDelay(true);
const incoming = bodies(socket);
const met = { binary_replies: 0, kinds: [] };
let binary = false;
let id = 0;

async function exchange(message) {
  socket.write(encode(message, binary));
  for (;;) {
    const { value: body, done } = await incoming.next();
    if (done) throw new Error("the model closed the connection");
    const reply = decode(body);
    if (reply.get("kind") === "auth_required") throw new Error(reply.get("error"));
    if (reply.has("id") && Number(reply.get("id").text) !== id) throw new Error("a reply to another request");
    if (!reply.has("wait")) {
      if (body[0] === 0xff) met.binary_replies += 1;
      return reply;
    }
    console.log(`waiting: place ${reply.get("wait").get("place").text}`);
  }
}

async function authenticate() {
  const nonce = randomBytes(32).toString("hex");
  const said = (await exchange({ cmd: "__link_auth__", obs: { nonce } })).get("res");
  if (!said) throw new Error("the model holds no token");
  const proof = (role) => {
    const lines = ["robopro-eval link 1", role, nonce, said.get("nonce")].join("\n");
    return createHmac("sha256", token).update(lines).digest("hex");
  };
  const same = timingSafeEqual(Buffer.from(proof("model")), Buffer.from(said.get("proof")));
  if (!same) throw new Error("the model holds another token");
  await exchange({ cmd: "__link_auth__", obs: { proof: proof("simulator") } });
}

async function request(members) {
  id += 1;
  const reply = await exchange({ ...members, id, accept: ["binary", "json", "wait"] });
  if (!reply.has("id")) throw new Error("the model is stock");
  met.kinds.push(reply.get("kind"));
  binary = reply.get("wire").includes("binary");
  return reply;
}

const episode = { id: "node/30000#1", task: "any", seed: 30000 };
const call = (cmd, ...args) => request({ cmd, args, kwargs: {}, episode_id: episode.id });

const observation = {
  image: new NdArray("uint8", [240, 320, 3], randomBytes(240 * 320 * 3)),
  jpeg: Buffer.from([0xff, 0xd8, 0xff]),
  depth: new NdArray(">u2", [2, 1], Buffer.from([0, 1, 1, 2])),
  empty: new NdArray("float64", [0, 3], Buffer.alloc(0)),
  "a dict": { __numpy_array__: true, data: "AAAA" },
  "none, text and truth": [null, "ü 机器人", true],
};
const flat = (value) =>
  JSON.stringify(value, (_, item) => (item instanceof Map ? Object.fromEntries(item) : item));

try {
  if (token) await authenticate();
  const first = await request({ cmd: "reset_model", obs: null });
  met.policy = first.get("policy").get("name");
  await request({ cmd: "reset_model", args: [], kwargs: {}, episode_id: episode.id, episode });
  met.came_back = flat((await call("echo", observation)).get("res")) === flat(observation);
  const chunk = (await call("get_action")).get("res");
  if (chunk instanceof NdArray) met.chunk = `${chunk.dtype} [${chunk.shape}]`;
  met.error = (await call("fail", "boom")).get("error");
  await request({ cmd: "__bye__", args: [], kwargs: {} });
  met.closed = (await incoming.next()).done;
} catch (error) {
  met.gave_up = error.message;
}
socket.destroy();
console.log(JSON.stringify(met));
