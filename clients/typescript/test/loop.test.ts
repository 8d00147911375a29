/** A loop of one's own over HTTP: with tools, refusals, cuts and kills, by a strict provider. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BadRequest, HoldfastClient, type Json, ProviderRefused, isRecord } from "../src/index.ts";
import { Provider, ServeProcess } from "./processes.ts";

const WINDOW = 20_000;
/** A model that checks the prefix of its reasoning. */
const MODEL = "claude-fable-5-2";
const READ = {
  name: "read",
  description: "Reads a part.",
  parameters: { type: "object", properties: { part: { type: "integer" } } },
};
const terms = { model: `anthropic:${MODEL}`, system: "Be brief.", tools: [READ], window: WINDOW };
const read = (args: Json): string =>
  Array.from({ length: 300 }, (_each, line) => `part ${String(args["part"])}, line ${line}`).join("\n");

let provider: Provider;
let server: ServeProcess;
let client: HoldfastClient;

before(async () => {
  provider = await new Provider(WINDOW).start();
  server = await new ServeProcess().start();
  client = new HoldfastClient({ baseUrl: server.url });
});

after(async () => {
  await server.stop();
  await provider.stop();
});

function post(request: Json): Promise<Response> {
  return fetch(`${provider.url}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" },
    body: JSON.stringify(request),
  });
}

const stream = (request: Json): Promise<Response> => post({ ...request, stream: true });

for (const [kind, send] of Object.entries({ whole: post, streamed: stream })) {
  test(`a loop with tools outgrows its window and survives an overflow, ${kind}`, async () => {
    const session = client.session(`loop-${kind}`);
    await session.open();
    const loop = session.loop(terms);
    let ran = 0;
    const tools = {
      read: (args: Json): string => {
        ran += 1;
        return read(args);
      },
    };
    for (let turn = 0; turn < 4; turn += 1) {
      if (turn === 2) {
        await provider.tell("overflow");
      }
      const reply = await loop.run(`question ${turn}`, { send, tools, key: `question-${turn}` });
      assert.match(reply.text, /^Answer/);
    }
    assert.equal(ran, 8);
    assert.deepEqual((await loop.position()).next, "user");
    const page = await session.history({ limit: 200 });
    assert.equal((page.messages ?? []).filter((message) => message["role"] === "user").length, 4);
    const report = await provider.tell();
    assert.deepEqual(report.invalid, []);
    assert.equal(report.refusedReasoning, 0);
  });
}

test("every step may be repeated, over a kill of the server between any two", async () => {
  const session = client.session("steps");
  await session.open();
  const loop = session.loop(terms);
  const again = async (): Promise<void> => {
    await server.kill();
    await server.start();
  };
  const first = await loop.addUser("question", { key: "k" });
  await again();
  assert.equal(await loop.addUser("question", { key: "k" }), first);
  const prepared = await loop.prepare();
  await again();
  assert.deepEqual((await loop.prepare()).request, prepared.request);
  const answer = (await (await post(prepared.request)).json()) as Json;
  const reply = await loop.record(answer, prepared, { key: "r" });
  await again();
  assert.equal((await loop.record(answer, prepared, { key: "r" })).record, reply.record);
  const place = await loop.position();
  assert.equal(place.next, "results");
  assert.deepEqual(place.calls, reply.calls);
  const call = reply.calls[0];
  assert.ok(call);
  const result = await loop.addResult(call.id, "part 0");
  await again();
  assert.equal(await loop.addResult(call.id, "part 0"), result);
  await assert.rejects(loop.addResult(call.id, "another"), BadRequest);
  await assert.rejects(loop.addResult("no-such-call", "x"), BadRequest);
  assert.match((await loop.run(undefined, { send: post, tools: { read } })).text, /^Answer/);
  const stored = await session.record(reply.record);
  assert.ok(isRecord(stored, "assistant"));
  assert.ok(stored.sent, "the reply is bound to its request, also over a kill");
  const report = await provider.tell();
  assert.deepEqual(report.invalid, []);
});

test("a rate limit ends the call with what the provider said, and the next one goes on", async () => {
  const session = client.session("limited");
  await session.open();
  const loop = session.loop(terms);
  await provider.tell("rate-limit");
  await assert.rejects(loop.run("question", { send: post, tools: { read } }), (error: unknown) => {
    assert.ok(error instanceof ProviderRefused);
    assert.equal(error.status, 429);
    assert.match(error.body, /rate_limit/);
    return true;
  });
  assert.equal((await loop.position()).next, "call");
  assert.match((await loop.run(undefined, { send: post, tools: { read } })).text, /^Answer/);
});

test("a stream that is cut is no reply, and the call is made again", async () => {
  const session = client.session("cut-loop");
  await session.open();
  const loop = session.loop(terms);
  await loop.addUser("question");
  await provider.tell("cut-call");
  await assert.rejects(loop.call(stream));
  assert.equal((await loop.position()).next, "call");
  assert.match((await loop.run(undefined, { send: stream, tools: { read } })).text, /^Answer/);
});

test("a tool that fails is an answer to the model", async () => {
  const session = client.session("failing");
  await session.open();
  const loop = session.loop(terms);
  const tools = {
    read: (): never => {
      throw new Error("no disk");
    },
  };
  await loop.run("question", { send: post, tools });
  const page = await session.history({ includeTools: true });
  assert.match(JSON.stringify(page.messages), /no disk/);
});
