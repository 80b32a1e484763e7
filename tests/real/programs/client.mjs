// What Node's fetch gets: `node client.mjs URL`; prints the JSON that client.py prints.
import { createHash } from "node:crypto";
const url = process.argv[2];
const small = Buffer.alloc(1024, 1), large = Buffer.alloc(256 * 20480);
for (let i = 0; i < large.length; i++) large[i] = i % 256;
const stream = () => new ReadableStream({
  start(out) { for (let i = 0; i < large.length; i += 65536) out.enqueue(large.subarray(i, i + 65536)); out.close(); },
});
const plan = {
  hello: ["GET", "/hello"], head: ["HEAD", "/hello"], empty: ["POST", "/echo", ""], small: ["POST", "/echo", small],
  large: ["POST", "/echo", large], chunked: ["POST", "/echo", stream()], down: ["GET", `/bytes?n=${large.length}`],
};
const found = {};
for (const [name, [method, path, body]] of Object.entries(plan)) {
  const response = await fetch(url + path, { method, body, duplex: "half" });
  const got = Buffer.from(await response.arrayBuffer());
  found[name] = [response.status, got.length, createHash("sha256").update(got).digest("hex")];
}
console.log(JSON.stringify(found));
