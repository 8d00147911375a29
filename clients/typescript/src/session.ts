/** A server of Holdfast, and a session on it. */

import { StreamFailed, TurnFailed } from "./errors.ts";
import { type FollowOptions, type LoggedRecord, type SessionEvent, followSession } from "./events.ts";
import { type CallOptions, Http, type HttpOptions } from "./http.ts";
import { type LoopTerms, OwnLoop } from "./loop.ts";
import type { components, operations } from "./schema.ts";

export type Schemas = components["schemas"];
type Query<O extends keyof operations> = NonNullable<operations[O]["parameters"]["query"]>;
/** The words of a message, or blocks as in the log. */
export type Content = Schemas["SendMessageBody"]["content"];
export type InboxMessage = Schemas["InboxMessage"];

const WAIT_SECONDS = 60;

/** A server: `holdfast serve`. */
export class HoldfastClient {
  /** Every request of the API, typed by the OpenAPI document: for what has no method here. */
  readonly http: Http;

  constructor(options: HttpOptions) {
    this.http = new Http(options);
  }

  /** A session by its name. Nothing is sent; `open` makes it where it is not there yet. */
  session(session: string, agent = "main"): HoldfastSession {
    return new HoldfastSession(this.http, agent, session);
  }

  /** List sessions, the newest first. */
  sessions(query: Query<"get_sessions"> = {}, options?: CallOptions): Promise<Schemas["SessionsPage"]> {
    return this.http.request("get", "/v1/sessions", { query }, options);
  }

  /** List the tool calls that wait for a person, of all sessions. */
  approvals(options?: CallOptions): Promise<Schemas["WaitingCalls"]> {
    return this.http.request("get", "/v1/approvals", {}, options);
  }

  /** Read the state of a message of the inbox, with its answer. */
  message(message: number, options?: CallOptions): Promise<InboxMessage> {
    return this.http.request("get", "/v1/inbox/{message}", { path: { message } }, options);
  }
}

export interface SendOptions extends CallOptions {
  /** Kept with the words in the log. */
  extra?: Record<string, unknown>;
}

/** A session of a server. */
export class HoldfastSession {
  readonly agent: string;
  readonly session: string;
  readonly http: Http;

  constructor(http: Http, agent: string, session: string) {
    this.http = http;
    this.agent = agent;
    this.session = session;
  }

  /** What names the session in an address. */
  get path(): { agent: string; session: string } {
    return { agent: this.agent, session: this.session };
  }

  /** Open the session, or make it. */
  open(label?: string, options?: CallOptions): Promise<Schemas["SessionRow"]> {
    return this.http.request(
      "put",
      "/v1/sessions/{agent}/{session}",
      { path: this.path, body: label === undefined ? {} : { label } },
      { canRepeat: true, ...options },
    );
  }

  /** Send a message. It is durable when this returns, and stored once, however often it is sent. */
  send(content: Content, options: SendOptions = {}): Promise<InboxMessage> {
    return this.#send(content, 0, options);
  }

  /** Send a message, and wait for its answer. Throws `TurnFailed` where it gets none. */
  async ask(content: Content, options: SendOptions = {}): Promise<string> {
    const key = options.key ?? crypto.randomUUID();
    for (;;) {
      const message = await this.#send(content, WAIT_SECONDS, { ...options, key });
      if (message.state === "failed" || message.state === "dropped") {
        throw new TurnFailed(message);
      }
      if (message.state === "answered") {
        return message.reply ?? "";
      }
    }
  }

  /**
   * Send a message, and follow the session until the message has its answer, over cuts of the
   * connection and ends of the server. Throws `TurnFailed` where it gets none.
   */
  async *stream(
    content: Content,
    options: SendOptions = {},
  ): AsyncGenerator<SessionEvent, InboxMessage, undefined> {
    const key = options.key ?? crypto.randomUUID();
    const seen = new Set<string>();
    let start = "";
    let message: InboxMessage | undefined;
    for await (const each of this.events(signalOf(options))) {
      if (each.event === "open") {
        // The message is sent when its session is listened to; after a cut, it may be answered.
        start ||= each.id;
        message = message ? await this.#message(message.id, options) : await this.#send(content, 0, { ...options, key });
      } else if (each.event === "record") {
        seen.add(each.data.id);
      } else if (each.event === "message" && each.data.message === message?.id) {
        message = await this.#message(message.id, options);
      }
      yield each;
      if (message?.state === "failed" || message?.state === "dropped") {
        throw new TurnFailed(message);
      }
      const record = message?.state === "answered" ? (message.record ?? "") : undefined;
      if (message && record !== undefined && (seen.has(record) || record <= start)) {
        return message; // ids are sortable: an answer before the start is one to an older request
      }
    }
    throw new StreamFailed("the stream ended before the message was answered");
  }

  /** Follow the session: its records, and pieces of replies as they are written. */
  events(options: FollowOptions = {}): AsyncGenerator<SessionEvent, void, undefined> {
    const { agent, session } = this;
    const path = `/v1/sessions/${encodeURIComponent(agent)}/${encodeURIComponent(session)}/events`;
    return followSession(this.http, path, options);
  }

  /** Read what was said, page by page. */
  history(
    query: Query<"get_sessions_agent_session_messages"> = {},
    options?: CallOptions,
  ): Promise<Schemas["HistoryPage"]> {
    const path = this.path;
    return this.http.request("get", "/v1/sessions/{agent}/{session}/messages", { path, query }, options);
  }

  /** Read one record in full. */
  record(record: string, options?: CallOptions): Promise<LoggedRecord> {
    const path = { ...this.path, record };
    return this.http.request("get", "/v1/sessions/{agent}/{session}/records/{record}", { path }, options);
  }

  /** Tell how full the context is, and what the session cost. */
  status(
    query: Query<"get_sessions_agent_session_status"> = {},
    options?: CallOptions,
  ): Promise<Schemas["SessionStatus"]> {
    const path = this.path;
    return this.http.request("get", "/v1/sessions/{agent}/{session}/status", { path, query }, options);
  }

  /** Tell the fate of every record in the next request. */
  context(
    query: Query<"get_sessions_agent_session_context"> = {},
    options?: CallOptions,
  ): Promise<Schemas["RequestReport"]> {
    const path = this.path;
    return this.http.request("get", "/v1/sessions/{agent}/{session}/context", { path, query }, options);
  }

  /** Cancel the turn that runs. */
  cancel(options?: CallOptions): Promise<Schemas["CancelResult"]> {
    const path = this.path;
    return this.http.request("post", "/v1/sessions/{agent}/{session}/cancel", { path }, options);
  }

  /** List the tool calls that wait for a person. */
  approvals(options?: CallOptions): Promise<Schemas["WaitingCalls"]> {
    const query = { sessionKey: `${this.agent}/${this.session}` };
    return this.http.request("get", "/v1/approvals", { query }, options);
  }

  /** Approve a call that waits; the session goes on. */
  approve(
    key: string,
    body: Schemas["ApproveCallBody"] = {},
    options?: CallOptions,
  ): Promise<Schemas["WaitingCall"]> {
    const path = { ...this.path, key };
    return this.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/approvals/{key}/approve",
      { path, body },
      options,
    );
  }

  /** Deny a call that waits; the model is told. */
  deny(
    key: string,
    body: Schemas["DenyCallBody"] = {},
    options?: CallOptions,
  ): Promise<Schemas["WaitingCall"]> {
    const path = { ...this.path, key };
    return this.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/approvals/{key}/deny",
      { path, body },
      options,
    );
  }

  /** A loop of your own over this session: you call the model, and run the tools. */
  loop(terms: LoopTerms): OwnLoop {
    return new OwnLoop(this, terms);
  }

  #message(message: number, options: CallOptions): Promise<InboxMessage> {
    const path = { message };
    return this.http.request("get", "/v1/inbox/{message}", { path }, signalOf(options));
  }

  #send(content: Content, wait: number, options: SendOptions): Promise<InboxMessage> {
    const { extra, key, ...rest } = options;
    const body = { content, ...(extra === undefined ? {} : { extra }) };
    return this.http.request(
      "post",
      "/v1/sessions/{agent}/{session}/messages",
      { path: this.path, query: { wait }, body },
      { ...rest, key: key ?? crypto.randomUUID() },
    );
  }
}

function signalOf(options: CallOptions): { signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}
