// The admin port: asked with the token that was entered, and followed live.

const path = (to) => `api/${to}`;

function headers(more = {}) {
  const token = sessionStorage.getItem("token");
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export const hasToken = () => Boolean(sessionStorage.getItem("token"));
export const keepToken = (token) => sessionStorage.setItem("token", token);

export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function answerOf(response) {
  if (response.ok) return response.json();
  const isProblem = response.headers.get("Content-Type")?.startsWith("application/problem+json");
  const problem = isProblem ? await response.json() : {};
  throw new Refusal(response.status, problem.detail ?? problem.title ?? String(response.status));
}

export const ask = async (to) => answerOf(await fetch(path(to), { headers: headers(), cache: "no-store" }));

export const order = async (to, body) =>
  answerOf(
    await fetch(path(to), {
      method: "POST",
      headers: headers({ "Content-Type": "application/json" }),
      body: JSON.stringify(body),
    }),
  );

// Calls `opened()` once and `told(name, data)` for each event, until the stream ends or `signal` aborts it. Read with
// fetch, since EventSource cannot send the admin token.
export async function follow(signal, opened, told) {
  const response = await fetch(path("events"), { headers: headers(), cache: "no-store", signal });
  if (!response.ok) return answerOf(response);
  opened();
  let rest = "";
  for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return undefined;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").map((field) => field.split(/: (.*)/s, 2)));
      told(fields.event, JSON.parse(fields.data));
    }
  }
}
