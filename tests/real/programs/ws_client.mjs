// What a client by `ws` meets: `node ws_client.mjs URL MODULES`; prints the JSON that ws_client.py prints.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
const WebSocket = createRequire(process.argv[3] + "/")("ws");
const url = process.argv[2], LARGE = 64 * 1024 * 1024;
const CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4404, 4999];
const told = data => `${data.length} ${createHash("sha256").update(data).digest("hex")}`;
const open = (path = "", protocols = []) => new Promise((resolve, reject) => {
  const socket = new WebSocket(url + path, protocols, { maxPayload: 0 });
  const queue = [], waiting = [];
  socket.on("message", data => (waiting.length ? waiting.shift()(data) : queue.push(data)));
  socket.next = () => new Promise(next => (queue.length ? next(queue.shift()) : waiting.push(next)));
  socket.ended = new Promise(end => socket.on("close", (code, reason) => end(`${code} ${reason}`.trim())));
  socket.on("open", () => resolve(socket));
  socket.on("error", reject);
});
const last = async () => {
  const socket = await open("/last"), text = String(await socket.next());
  socket.close();
  await socket.ended;
  return text;
};
const found = {};
{
  const socket = await open("", ["v1", "v2", "tok.en~data"]);
  found.subprotocol = socket.protocol;
  found.is_compressed = socket.extensions.includes("permessage-deflate");
  const messages = { text: "h\u00e9llo".repeat(1000), binary: Buffer.alloc(25600, 0).map((_, i) => i % 256), empty: "" };
  for (const [name, message] of Object.entries(messages)) { socket.send(message); found[name] = told(await socket.next()); }
  ["in ", "four ", "frag", "ments"].forEach((part, i) => socket.send(part, { fin: i === 3 }));
  found.fragments = String(await socket.next());
  await new Promise(pong => { socket.on("pong", pong); socket.ping("hello"); });
  found.pong = true;
  socket.send(Buffer.alloc(LARGE, 0xcd));
  found["large up and down"] = told(await socket.next());
  socket.close(4001, "bye");
  await socket.ended;
  found["client's close"] = await last();
}
{
  const socket = await open("/ping");
  found["server's ping"] = String(await socket.next());
  socket.close();
  await socket.ended;
}
{
  const socket = await open(`/give?n=${LARGE}`);
  found["large down"] = told(await socket.next());
  socket.close();
  await socket.ended;
}
for (const code of CODES) found[`server's ${code}`] = await (await open(`/close?code=${code}&reason=because`)).ended;
found["server drops"] = (await (await open("/drop")).ended).split(" ")[0];
{
  const socket = await open();
  socket.send("x");
  await socket.next();
  socket.terminate();
  await new Promise(soon => setTimeout(soon, 500));
  found["client drops"] = (await last()).split(" ")[0];
}
console.log(JSON.stringify(found));
