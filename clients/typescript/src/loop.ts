/** A loop of your own: you call the model with your key and run the tools; Holdfast builds each
 * request so that it fits, stores what comes back, and recovers from refusals. */

import { CannotBeDone, ProviderRefused, retryAfterOf } from "./errors.ts";
import { readEvents } from "./events.ts";
import type { CallOptions } from "./http.ts";
import type { Content, HoldfastSession, Schemas } from "./session.ts";

export type Json = Record<string, unknown>;
/** A tool, as it is declared to the model. */
export type ToolDeclaration = {
  name: string;
  description: string;
  /** The JSON schema of the arguments. */
  parameters: Json;
};

/** The terms of a loop: the model that you call, and what it is told. */
export interface LoopTerms {
  /** As `anthropic:NAME`, `openai-responses:NAME`, `openai-chat:NAME` or `gemini:NAME`. */
  model: string;
  system?: string;
  tools?: ToolDeclaration[];
  /** The context window in tokens, where it is not the model's own. */
  window?: number;
  /** Tokens to reserve for the reply. */
  output?: number;
}

/** A refusal of the provider: its status (0 where there was no answer) and its body. */
export interface ProviderRefusal {
  status: number;
  body: string;
}

export type LoopPosition = Schemas["LoopPosition"];
export type PreparedCall = Schemas["PreparedCall"];
export type RecordedReply = Schemas["RecordedReply"];

/** Runs a tool. What it throws is told to the model. */
export type ToolRun = (args: Json, call: Schemas["LoopCall"]) => unknown;

export interface LoopRun extends CallOptions {
  /** Sends a request to the provider, as it is; a stream is taken, too. */
  send: (request: Json, prepared: PreparedCall) => Promise<Response>;
  /** Runs the tools, by name. */
  tools?: Record<string, ToolRun>;
  /** Calls of the model, at most (50). */
  stepsMax?: number;
}

export class OwnLoop {
  readonly session: HoldfastSession;
  readonly terms: LoopTerms;

  constructor(session: HoldfastSession, terms: LoopTerms) {
    this.session = session;
    this.terms = terms;
  }

  /** Store a message of the user; returns its record. The same key again stores nothing more. */
  async addUser(content: Content, options: CallOptions = {}): Promise<string> {
    const found = await this.session.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/loop/messages",
      { path: this.session.path, body: { content } },
      { ...options, key: options.key ?? crypto.randomUUID() },
    );
    return found.record;
  }

  /** Build the next request, so that it fits; after a refusal, a smaller one. */
  prepare(failed?: ProviderRefusal, options: CallOptions = {}): Promise<PreparedCall> {
    const refusal = failed && { failedStatus: failed.status, failedBody: failed.body };
    return this.session.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/loop/prepare",
      { path: this.session.path, body: { ...this.terms, ...refusal } },
      { canRepeat: failed === undefined, ...options },
    );
  }

  /** Store the reply to a request: the JSON of the provider, or the events of its stream. */
  record(reply: Json | Json[], prepared: PreparedCall, options: CallOptions = {}): Promise<RecordedReply> {
    return this.session.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/loop/replies",
      { path: this.session.path, body: { ...this.terms, reply, prepared: prepared.prepared } },
      { ...options, key: options.key ?? crypto.randomUUID() },
    );
  }

  /** Store the result of a tool; returns its record. The same result again is stored once. */
  async addResult(
    callId: string,
    content: Content,
    options: CallOptions & { isError?: boolean } = {},
  ): Promise<string> {
    const { isError = false, ...rest } = options;
    const found = await this.session.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/loop/results",
      { path: this.session.path, body: { callId, content, isError } },
      { canRepeat: true, ...rest },
    );
    return found.record;
  }

  /** Tell where the loop stands, after this program was ended for one. */
  position(options?: CallOptions): Promise<LoopPosition> {
    const path = this.session.path;
    return this.session.http.request("get", "/v1/sessions/{agent}/{session}/loop", { path }, options);
  }

  /**
   * Make one call of the model, with smaller requests after refusals, and store its reply. Throws
   * `ProviderRefused` where no request would help: a rate limit, for one.
   */
  async call(send: LoopRun["send"], options: CallOptions = {}): Promise<RecordedReply> {
    const signal = options.signal === undefined ? {} : { signal: options.signal };
    let prepared = await this.prepare(undefined, signal);
    for (;;) {
      const response = await send(prepared.request, prepared);
      if (response.ok) {
        return this.record(await readReply(response), prepared, signal);
      }
      const failed = { status: response.status, body: await response.text() };
      prepared = await this.prepareAgain(failed, retryAfterOf(response), signal);
    }
  }

  /** Build a smaller request after a refusal. Throws `ProviderRefused` where none would help. */
  async prepareAgain(
    failed: ProviderRefusal,
    retryAfter: number | undefined,
    options: CallOptions = {},
  ): Promise<PreparedCall> {
    try {
      return await this.prepare(failed, options);
    } catch (error) {
      if (error instanceof CannotBeDone) {
        throw new ProviderRefused(failed.status, failed.body, retryAfter, error);
      }
      throw error;
    }
  }

  /**
   * Say something, run the tools that the model calls, and go on to its last reply. Without
   * `content` it goes on where the loop stands; calls whose results were lost are not run again,
   * and the model is told.
   */
  async run(content: Content | undefined, options: LoopRun): Promise<RecordedReply> {
    const { send, tools = {}, stepsMax = 50, key, signal } = options;
    const rest = signal === undefined ? {} : { signal };
    if (content !== undefined) {
      await this.addUser(content, key === undefined ? rest : { ...rest, key });
    }
    for (let step = 1; ; step += 1) {
      const reply = await this.call(send, rest);
      for (const call of reply.calls) {
        const { words, isError } = await runTool(tools[call.name], call);
        await this.addResult(call.id, words, { ...rest, isError });
      }
      if (reply.calls.length === 0 || step >= stepsMax) {
        return reply;
      }
    }
  }
}

async function runTool(
  tool: ToolRun | undefined,
  call: Schemas["LoopCall"],
): Promise<{ words: string; isError: boolean }> {
  if (tool === undefined) {
    return { words: `There is no tool \`${call.name}\`.`, isError: true };
  }
  try {
    const found = await tool(call.arguments, call);
    return { words: typeof found === "string" ? found : (JSON.stringify(found) ?? ""), isError: false };
  } catch (error) {
    return { words: String(error), isError: true };
  }
}

/** Read the reply of a provider: its JSON, or the events of its stream. */
export async function readReply(response: Response): Promise<Json | Json[]> {
  if (!isStream(response)) {
    return (await response.json()) as Json;
  }
  const events: Json[] = [];
  for await (const event of readEvents(response.body ?? new ReadableStream<Uint8Array>())) {
    takeEvent(event.data, events);
  }
  return events;
}

/** Does a response come as a stream of events? */
export function isStream(response: Response): boolean {
  return (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
}

/** Add what an event holds to the others; `[DONE]` and what has no data hold nothing. */
export function takeEvent(data: string, events: Json[]): void {
  if (data !== "" && data !== "[DONE]") {
    events.push(JSON.parse(data) as Json);
  }
}
