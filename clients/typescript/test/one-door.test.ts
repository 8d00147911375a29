/** The Vercel AI SDK, unchanged but for the address: agents of the server as models, and upstreams. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type LanguageModel, type ModelMessage, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { HoldfastClient } from "../src/index.ts";
import { Provider, ServeProcess } from "./processes.ts";

let provider: Provider;
let server: ServeProcess;

before(async () => {
  provider = await new Provider().start();
  process.env["UPSTREAM_KEY"] = "upstream-key";
  const upstreams = ["anthropic", "openai", "gemini"].map(
    (name) => `[upstreams.${name}]\nurl = "${provider.url}"\nkey = "UPSTREAM_KEY"\n`,
  );
  const agent = `[agents.main]\nmodel = "anthropic:claude-opus-4-8@${provider.url}"\n`;
  server = await new ServeProcess(`${agent}checkpoints = "off"\n${upstreams.join("")}`).start();
});

after(async () => {
  await server.stop();
  await provider.stop();
});

const apiKey = "none";
const MODELS: Record<string, [string, (model: string) => LanguageModel]> = {
  anthropic: [
    "claude-sonnet-4-5",
    (model) => createAnthropic({ apiKey, baseURL: `${server.url}/v1` })(model),
  ],
  responses: ["gpt-4o", (model) => createOpenAI({ apiKey, baseURL: `${server.url}/v1` }).responses(model)],
  chat: [
    "gpt-4o",
    (model) => createOpenAICompatible({ name: "holdfast", baseURL: `${server.url}/v1` })(model),
  ],
  gemini: ["gemini-2.5-pro", (model) => createGoogle({ apiKey, baseURL: `${server.url}/v1beta` })(model)],
};

/** The newest session of the server. */
async function newest(): Promise<{ id: string; messages: number }> {
  const [row] = (await new HoldfastClient({ baseUrl: server.url }).sessions({ limit: 1 })).sessions;
  assert.ok(row);
  return row;
}

for (const [dialect, [upstream, make]] of Object.entries(MODELS)) {
  test(`an agent is a model: ${dialect}`, async () => {
    const model = make("holdfast/main");
    const messages: ModelMessage[] = [{ role: "user", content: `hello by ${dialect}` }];
    const first = await generateText({ model, messages });
    assert.match(first.text, /^Answer/);
    messages.push(...first.response.messages, { role: "user", content: "and more" });
    const second = await streamText({ model, messages }).text;
    assert.match(second, /^Answer/);
    assert.equal((await newest()).messages, 4, "one session has both turns");
    assert.deepEqual((await provider.tell()).invalid, []);
  });

  test(`an upstream is a provider, with the client's own tools: ${dialect}`, async () => {
    const read = tool({
      description: "Reads a part.",
      inputSchema: z.object({ part: z.number().int() }),
      execute: ({ part }) => `part ${part}`,
    });
    const terms = { model: make(upstream), tools: { read }, stopWhen: stepCountIs(10) };
    const { text, steps, response } = await generateText({ ...terms, prompt: `read, ${dialect}` });
    assert.match(text, /^Answer/);
    assert.equal(steps.length, 3);
    const before: ModelMessage[] = [{ role: "user", content: `read, ${dialect}` }, ...response.messages];
    const streamed = streamText({ ...terms, messages: [...before, { role: "user", content: "again" }] });
    assert.match(await streamed.text, /^Answer/);
    const { messages } = await newest();
    assert.equal(messages, 8, "one session has both turns: results of tools are no messages");
    assert.deepEqual((await provider.tell()).invalid, []);
  });
}

test("what an agent does not take is said by the AI SDK", async () => {
  const model = createAnthropic({ apiKey, baseURL: `${server.url}/v1` })("holdfast/main");
  await assert.rejects(generateText({ model, system: "Be brief.", prompt: "hello" }), (error: unknown) => {
    assert.match(String(error), /its own instructions|does not take the field `system`/);
    return true;
  });
});
