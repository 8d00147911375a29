/**
 * A model of the Vercel AI SDK whose calls are prepared and recorded by Holdfast.
 *
 * The AI SDK calls the provider with your key, and reads the replies. What is sent is the body that
 * Holdfast built from the log, and what came back is in the log before the AI SDK runs a tool.
 */

import { type LanguageModelMiddleware, wrapLanguageModel } from "ai";
import { AlreadyAnswered, HoldfastError, retryAfterOf } from "./errors.ts";
import { isRecord, readEvents } from "./events.ts";
import {
  type Json,
  type LoopTerms,
  OwnLoop,
  type PreparedCall,
  type ToolDeclaration,
  isStream,
  takeEvent,
} from "./loop.ts";
import type { Content, HoldfastSession } from "./session.ts";

type Fetch = typeof globalThis.fetch;
type Transform = NonNullable<LanguageModelMiddleware["transformParams"]>;
type Params = Parameters<Transform>[0]["params"];
type Message = Params["prompt"][number];
type UserPart = Extract<Message, { role: "user" }>["content"][number];
type ToolPart = Extract<Message, { role: "tool" }>["content"][number];
type Output = Extract<ToolPart, { type: "tool-result" }>["output"];
type Stream = Awaited<ReturnType<NonNullable<LanguageModelMiddleware["wrapStream"]>>>["stream"];
type StreamPart = Stream extends ReadableStream<infer P> ? P : never;
type Wrapped = ReturnType<typeof wrapLanguageModel>;

/** The header by which our `fetch` knows a call; it is not sent on. */
const CALL = "x-holdfast-call";
/** Fields that hold the conversation or the room for the reply, in the dialects of providers. */
const REPLACED = [
  ...["system", "messages", "instructions", "input", "systemInstruction", "contents"],
  ...["max_tokens", "max_completion_tokens", "max_output_tokens"],
];

export interface HoldfastModelOptions {
  /** The model as Holdfast names it, where its provider does not tell: `openai-chat:NAME`. */
  model?: string;
  /** The context window in tokens, where it is not the model's own. */
  window?: number;
}

/**
 * A model of the AI SDK for one session. `make` gets the `fetch` that its provider has to use:
 *
 *     const model = holdfastModel(session, (fetch) => createAnthropic({ fetch })("claude-sonnet-5-5"));
 *
 * The session has the history. Of the messages of a call, those after the model's last reply are
 * new: the user's, or results of tools. A user's message is stored once under the key in
 * `providerOptions.holdfast.key`; without one, the same message again is the same message as long
 * as it has no reply.
 */
export function holdfastModel(
  session: HoldfastSession,
  make: (fetch: Fetch) => Parameters<typeof wrapLanguageModel>[0]["model"],
  options: HoldfastModelOptions = {},
): Wrapped {
  const calls = new Map<string, Call>();
  const model = make(fetchThrough(calls));
  const middleware: LanguageModelMiddleware = {
    specificationVersion: "v4",
    transformParams: async ({ params, model: inner }) => {
      const name = options.model ?? nameOf(inner.provider, inner.modelId);
      const loop = new OwnLoop(session, termsOf(params, name, options.window));
      await store(loop, params);
      const call = crypto.randomUUID();
      calls.set(call, { loop, keepsTools: (params.tools ?? []).some(isSpecial) });
      return { ...params, headers: { ...params.headers, [CALL]: call } };
    },
    wrapGenerate: async ({ doGenerate, params }) => {
      try {
        return await doGenerate();
      } finally {
        calls.delete(params.headers?.[CALL] ?? "");
      }
    },
    wrapStream: async ({ doStream, params }) => {
      const name = params.headers?.[CALL] ?? "";
      const call = calls.get(name);
      try {
        const { stream, ...rest } = await doStream();
        return { ...rest, stream: stream.pipeThrough(holdCalls(call?.recorded)) };
      } finally {
        calls.delete(name);
      }
    },
  };
  return wrapLanguageModel({ model, middleware });
}

interface Call {
  loop: OwnLoop;
  /** Send the tools as the AI SDK writes them. */
  keepsTools: boolean;
  /** Of a stream: it is in the log. */
  recorded?: Promise<void>;
}

/**
 * Does only the AI SDK know how to write a tool? All others are written by Holdfast: the AI SDK
 * writes them in one way for a stream and in another without, and each change of the tools ends
 * the prompt cache, and with some models the reasoning.
 */
function isSpecial(tool: NonNullable<Params["tools"]>[number]): boolean {
  return tool.type === "provider" || tool.strict !== undefined;
}

function termsOf(params: Params, model: string, window: number | undefined): LoopTerms {
  const system = params.prompt.flatMap((each) => (each.role === "system" ? [each.content] : []));
  const tools = (params.tools ?? []).map(
    (tool): ToolDeclaration =>
      tool.type === "function"
        ? { name: tool.name, description: tool.description ?? "", parameters: { ...tool.inputSchema } }
        : { name: tool.name, description: "", parameters: {} },
  );
  return {
    model,
    system: system.join("\n\n"),
    tools,
    ...(window === undefined ? {} : { window }),
    ...(params.maxOutputTokens === undefined ? {} : { output: params.maxOutputTokens }),
  };
}

/** Store what is new: the user's messages and the results of tools behind the last reply. */
async function store(loop: OwnLoop, { prompt, abortSignal }: Params): Promise<void> {
  const signal = abortSignal === undefined ? {} : { signal: abortSignal };
  const last = prompt.findLastIndex((each) => each.role === "assistant");
  const position = await loop.position(signal);
  if (last >= 0 && position.record === "") {
    throw new HoldfastError(
      `The prompt has a reply of the model, and session ${loop.session.session} has none: ` +
        "begin with a message of the user, or import the conversation with `holdfast import`",
    );
  }
  for (const message of prompt.slice(last + 1)) {
    if (message.role === "tool") {
      for (const part of message.content) {
        if (part.type === "tool-result") {
          const { content, isError } = readOutput(part.output);
          await loop.addResult(part.toolCallId, content, { ...signal, isError });
        }
      }
    }
    if (message.role === "user") {
      const content = readUser(message.content);
      const key = message.providerOptions?.["holdfast"]?.["key"];
      if (typeof key === "string") {
        await loop.addUser(content, { ...signal, key });
        await checkOpen(loop);
      } else if (position.next !== "call" || !(await isNewest(loop, position.record, content))) {
        await loop.addUser(content, signal);
      }
    }
  }
}

/** Throw where nothing is to be answered: the message that was stored had been sent before. */
async function checkOpen(loop: OwnLoop): Promise<void> {
  const position = await loop.position();
  if (position.next === "user") {
    const reply = await loop.session.record(position.record);
    throw new AlreadyAnswered(position.record, isRecord(reply, "assistant") ? textOf(reply.content) : "");
  }
}

function textOf(content: string | Json[] | null): string {
  if (typeof content === "string" || content === null) {
    return content ?? "";
  }
  return content.map((block) => (block["type"] === "text" ? String(block["text"]) : "")).join("");
}

/** Is this message the newest of the session? Then it is one that got no reply yet. */
async function isNewest(loop: OwnLoop, record: string, content: Content): Promise<boolean> {
  const newest = await loop.session.record(record);
  return isRecord(newest, "user") && JSON.stringify(newest.content) === JSON.stringify(content);
}

function readUser(parts: UserPart[]): Content {
  const blocks = parts.map(readPart);
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === parts.length ? texts.join("\n") : blocks;
}

function readPart(part: UserPart): Json {
  if (part.type === "text") {
    return { type: "text", text: part.text };
  }
  const { data, mediaType } = part;
  if (data.type === "text") {
    return { type: "text", text: data.text };
  }
  if (data.type === "reference") {
    throw new HoldfastError("A file by a provider's reference cannot be stored: pass its data");
  }
  const type = mediaType.startsWith("image") ? "image" : "document";
  if (data.type === "url") {
    return { type, source: { type: "url", url: String(data.url) } };
  }
  const base64 = typeof data.data === "string" ? data.data : toBase64(data.data);
  return { type, source: { type: "base64", media_type: mediaType, data: base64 } };
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    text += String.fromCharCode(byte);
  }
  return btoa(text);
}

function readOutput(output: Output): { content: Content; isError: boolean } {
  switch (output.type) {
    case "text":
      return { content: output.value, isError: false };
    case "json":
      return { content: JSON.stringify(output.value), isError: false };
    case "error-text":
      return { content: output.value, isError: true };
    case "error-json":
      return { content: JSON.stringify(output.value), isError: true };
    case "execution-denied":
      return { content: output.reason ?? "The call was denied.", isError: true };
    case "content":
      return {
        content: output.value.map((part) =>
          part.type === "text" || part.type === "file"
            ? readPart(part)
            : { type: "text", text: JSON.stringify(part) },
        ),
        isError: false,
      };
  }
}

function nameOf(provider: string, model: string): string {
  const kinds = [
    ["anthropic", "anthropic"],
    ["google.", "gemini"],
    [".responses", "openai-responses"],
    [".chat", "openai-chat"],
  ] as const;
  const found = kinds.find(([part]) => provider.includes(part));
  if (found === undefined) {
    throw new HoldfastError(
      `The provider \`${provider}\` is not known: say \`{ model: "openai-chat:${model}" }\`, ` +
        "with the API that it speaks",
    );
  }
  return `${found[1]}:${model}`;
}

/** A `fetch` for the provider: it sends what Holdfast prepared, and records what comes back. */
function fetchThrough(calls: Map<string, Call>): Fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    const call = headers.get(CALL);
    headers.delete(CALL);
    const known = call === null ? undefined : calls.get(call);
    if (known === undefined || typeof init?.body !== "string") {
      return globalThis.fetch(input, { ...init, headers });
    }
    const { loop, keepsTools } = known;
    const body = JSON.parse(init.body) as Json;
    const signal = init.signal ? { signal: init.signal } : {};
    let prepared = await loop.prepare(undefined, signal);
    for (;;) {
      const sent = JSON.stringify(merge(body, prepared.request, keepsTools));
      const response = await globalThis.fetch(input, { ...init, headers, body: sent });
      if (response.ok) {
        return isStream(response)
          ? recordStream(known, response, prepared)
          : recordWhole(loop, response, prepared);
      }
      const failed = { status: response.status, body: await response.text() };
      try {
        prepared = await loop.prepareAgain(failed, retryAfterOf(response), signal);
      } catch (error) {
        if (error instanceof HoldfastError && error.name === "ProviderRefused") {
          return again(response, failed.body); // the AI SDK says it in its own way, or waits
        }
        throw error;
      }
    }
  };
}

/** The body of the AI SDK, with the conversation that Holdfast prepared. */
function merge(body: Json, request: Json, keepsTools: boolean): Json {
  const replaced = keepsTools ? REPLACED : [...REPLACED, "tools"];
  const kept = Object.entries(body).filter(([name]) => !replaced.includes(name));
  const found: Json = { ...request, ...Object.fromEntries(kept) };
  const [own, prepared] = [body["generationConfig"], request["generationConfig"]];
  if (isObject(own) && isObject(prepared)) {
    found["generationConfig"] = { ...own, ...prepared };
  }
  return found;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

async function recordWhole(
  loop: OwnLoop,
  response: Response,
  prepared: PreparedCall,
): Promise<Response> {
  const text = await response.text();
  await loop.record(JSON.parse(text) as Json, prepared);
  return again(response, text);
}

/** Pass a stream on as it comes. It ends when the reply is in the log, and fails if it is not. */
function recordStream(call: Call, response: Response, prepared: PreparedCall): Response {
  const [ours, theirs] = (response.body ?? new ReadableStream<Uint8Array>()).tee();
  const recorded = (async () => {
    const events: Json[] = [];
    for await (const event of readEvents(ours)) {
      takeEvent(event.data, events);
    }
    await call.loop.record(events, prepared);
  })();
  recorded.catch(() => undefined); // those who wait for it get it
  call.recorded = recorded;
  const end = new TransformStream<Uint8Array, Uint8Array>({ flush: () => recorded });
  return again(response, theirs.pipeThrough(end));
}

function again(response: Response, body: BodyInit): Response {
  const headers = new Headers(response.headers);
  headers.delete("content-encoding"); // it is decoded
  headers.delete("content-length");
  return new Response(body, { status: response.status, statusText: response.statusText, headers });
}

/** Keep the calls of tools back until the reply is in the log: then they may run. */
function holdCalls(recorded: Promise<void> | undefined): TransformStream<StreamPart, StreamPart> {
  const held: StreamPart[] = [];
  return new TransformStream({
    async transform(part, controller) {
      if (part.type === "tool-call") {
        held.push(part);
        return;
      }
      if (part.type === "finish") {
        await recorded;
        for (const call of held.splice(0)) {
          controller.enqueue(call);
        }
      }
      controller.enqueue(part);
    },
  });
}
