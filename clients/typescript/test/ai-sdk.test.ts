/** The Vercel AI SDK through Holdfast: prepared and recorded, over cuts, refusals and kills. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { holdfastModel } from "../src/ai-sdk.ts";
import { AlreadyAnswered, HoldfastClient, HoldfastError, type HoldfastSession, isRecord } from "../src/index.ts";
import { Provider, ServeProcess } from "./processes.ts";

const WINDOW = 20_000;

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

type Fetch = typeof globalThis.fetch;
type Made = Parameters<typeof holdfastModel>[1];

const apiKey = "test";
const MODELS: Record<string, Made> = {
  anthropic: (fetch: Fetch) =>
    createAnthropic({ fetch, apiKey, baseURL: `${provider.url}/v1` })("claude-fable-5-2"),
  responses: (fetch: Fetch) =>
    createOpenAI({ fetch, apiKey, baseURL: `${provider.url}/v1` }).responses("gpt-6.2-sol"),
  chat: (fetch: Fetch) =>
    createOpenAICompatible({ fetch, apiKey, name: "loop", baseURL: `${provider.url}/v1` })("gpt-4o"),
  gemini: (fetch: Fetch) =>
    createGoogle({ fetch, apiKey, baseURL: `${provider.url}/v1beta` })("gemini-2.5-pro"),
};

/** A tool that counts its runs. */
function readTool(onRun: (part: number) => void | Promise<void> = () => undefined) {
  return tool({
    description: "Reads a part.",
    inputSchema: z.object({ part: z.number().int() }),
    execute: async ({ part }) => {
      await onRun(part);
      return Array.from({ length: 300 }, (_each, line) => `part ${part}, line ${line}`).join("\n");
    },
  });
}

async function opened(name: string): Promise<HoldfastSession> {
  const session = client.session(name);
  await session.open();
  return session;
}

/** How often each role is in the log. */
async function count(session: HoldfastSession): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  const page = await session.history({ limit: 200, includeTools: true });
  for (const message of page.messages ?? []) {
    const role = String(message["role"]);
    found[role] = (found[role] ?? 0) + 1;
  }
  return found;
}

for (const [dialect, make] of Object.entries(MODELS)) {
  test(`generateText and streamText with tools, over an overflow: ${dialect}`, async () => {
    const session = await opened(`ai-${dialect}`);
    const model = holdfastModel(session, make, { window: WINDOW });
    let runs = 0;
    const tools = { read: readTool(() => void (runs += 1)) };
    const terms = { model, tools, system: "Be brief.", stopWhen: stepCountIs(10) };
    for (let turn = 0; turn < 4; turn += 1) {
      if (turn === 2) {
        await provider.tell("overflow");
      }
      if (turn % 2 === 0) {
        const { text, steps } = await generateText({ ...terms, prompt: `question ${turn}` });
        assert.match(text, /^Answer/);
        assert.equal(steps.length, 3);
      } else {
        const result = streamText({ ...terms, prompt: `question ${turn}` });
        assert.match(await result.text, /^Answer/);
      }
    }
    assert.equal(runs, 8);
    assert.deepEqual(await count(session), { user: 4, assistant: 12, toolResult: 8 });
    const report = await provider.tell();
    assert.deepEqual(report.invalid, []);
    assert.equal(report.refusedReasoning, 0);
  });
}

test("a stream that is cut runs no tool, and the same message again is the same message", async () => {
  const session = await opened("ai-cut");
  const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
  let runs = 0;
  const tools = { read: readTool(() => void (runs += 1)) };
  const ask = () =>
    streamText({
      model,
      tools,
      prompt: "question",
      stopWhen: stepCountIs(10),
      maxRetries: 0,
      onError: () => undefined,
    });
  await provider.tell("cut-call");
  await assert.rejects(async () => await ask().text);
  assert.equal(runs, 0);
  assert.match(await ask().text, /^Answer/);
  assert.equal(runs, 2);
  assert.deepEqual(await count(session), { user: 1, assistant: 3, toolResult: 2 });
  assert.deepEqual((await provider.tell()).invalid, []);
});

test("the server is killed while a tool runs, and the turn goes on", async () => {
  const session = await opened("ai-killed");
  const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
  const { withheld } = await provider.tell();
  let kills = 0;
  const kill = async (): Promise<void> => {
    if (kills === 0) {
      kills += 1;
      await server.kill();
      await server.start();
    }
  };
  const { text } = await generateText({
    model,
    tools: { read: readTool(kill) },
    prompt: "question",
    stopWhen: stepCountIs(10),
  });
  assert.match(text, /^Answer/);
  assert.equal(kills, 1);
  assert.deepEqual(await count(session), { user: 1, assistant: 3, toolResult: 2 });
  const report = await provider.tell();
  assert.deepEqual(report.invalid, []);
  assert.equal(report.withheld, withheld, "the reasoning of before goes back");
});

test("a call is in the log before its tool runs", async () => {
  const session = await opened("ai-before");
  for (const way of ["generate", "stream"]) {
    const open: string[] = [];
    const look = async (part: number): Promise<void> => {
      const place = await session.loop({ model: "anthropic:x" }).position();
      open.push(place.next);
      open.push(...place.calls.map((call) => `${call.name} ${String(call.arguments["part"])} ${part}`));
    };
    const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
    const terms = { model, tools: { read: readTool(look) }, stopWhen: stepCountIs(10) };
    const prompt = `by ${way}`;
    await (way === "generate" ? generateText({ ...terms, prompt }) : streamText({ ...terms, prompt }).text);
    assert.deepEqual(open, ["results", "read 0 0", "results", "read 1 1"]);
  }
});

test("a rate limit is the AI SDK's own error, and its retry stores nothing twice", async () => {
  const session = await opened("ai-limited");
  const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
  await provider.tell("rate-limit");
  const ask = { model, prompt: "question" };
  await assert.rejects(generateText({ ...ask, maxRetries: 0 }), { statusCode: 429 });
  await provider.tell("rate-limit");
  const { text } = await generateText({ ...ask, maxRetries: 2 });
  assert.match(text, /^Answer/);
  assert.deepEqual(await count(session), { user: 1, assistant: 1 });
});

test("a message with a key is stored once, also when it has its answer", async () => {
  const session = await opened("ai-key");
  const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
  const providerOptions = { holdfast: { key: "message-1" } };
  const messages = [{ role: "user" as const, content: "hello", providerOptions }];
  const { text } = await generateText({ model, messages });
  await assert.rejects(generateText({ model, messages, maxRetries: 0 }), (error: unknown) => {
    assert.ok(error instanceof AlreadyAnswered);
    assert.equal(error.text, text);
    return true;
  });
  assert.deepEqual(await count(session), { user: 1, assistant: 1 });
});

test("a picture is in the log, and reaches the model", async () => {
  const session = await opened("ai-picture");
  const model = holdfastModel(session, MODELS["anthropic"] as Made, { window: WINDOW });
  const image =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const content = [
    { type: "text" as const, text: "what is it?" },
    { type: "file" as const, mediaType: "image/png", data: image },
  ];
  await generateText({ model, messages: [{ role: "user", content }] });
  const stored = [];
  for await (const event of session.events({ after: (await first(session)).id, untilIdle: true })) {
    if (event.event === "record" && isRecord(event.data, "user")) {
      stored.push(event.data.content);
    }
  }
  assert.match(JSON.stringify(stored), /image/);
  assert.deepEqual((await provider.tell()).invalid, []);
});

async function first(session: HoldfastSession): Promise<{ id: string }> {
  return session.record(session.session);
}

test("a history that the log does not have is refused", async () => {
  const model = holdfastModel(await opened("ai-history"), MODELS["anthropic"] as Made);
  const messages = [
    { role: "user" as const, content: "one" },
    { role: "assistant" as const, content: "two" },
    { role: "user" as const, content: "three" },
  ];
  await assert.rejects(generateText({ model, messages, maxRetries: 0 }), HoldfastError);
});
