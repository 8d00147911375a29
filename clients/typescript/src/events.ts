/** Server-sent events, and a stream of them that goes on where it was cut. */

import { ConnectionFailed, StreamFailed, Unavailable } from "./errors.ts";
import { type Http, sleep } from "./http.ts";
import type { components } from "./schema.ts";

/** One event, as it came. */
export interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

type Data = components["schemas"]["get_sessions_agent_session_events_stream"];
/** An event of a session: `event` says which, `data` is typed by it. */
export type SessionEvent = {
  [N in Exclude<keyof Data, "error">]: {
    event: N;
    /** The id of the newest record: to go on after this event, pass it as `after`. */
    id: string;
    data: Data[N];
  };
}[Exclude<keyof Data, "error">] | StreamOpen;

/** The stream is open, for the first time or after a cut. A cut loses pieces, and no record. */
export interface StreamOpen {
  event: "open";
  id: string;
  data: { isAgain: boolean };
}

/** A record of a session: `type` says which. */
export type LoggedRecord = components["schemas"]["LoggedRecord"];
type Known = Exclude<LoggedRecord, components["schemas"]["OtherLoggedRecord"]>;

/** Is it a record of this type? */
export function isRecord<T extends Known["type"]>(
  record: LoggedRecord,
  type: T,
): record is Extract<Known, { type: T }> {
  return record.type === type;
}

/** Read the events of a body. One that has only an id, which says where a stream begins, has no
 * name. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onRetry: (ms: number) => void = () => undefined,
): AsyncGenerator<ServerEvent, void, undefined> {
  let name = "";
  let data: string[] = [];
  let id = "";
  let hasId = false;
  for await (const line of readLines(body)) {
    if (line === "") {
      if (data.length > 0) {
        yield { name: name || "message", id, data: data.join("\n") };
      } else if (hasId) {
        yield { name: "", id, data: "" };
      }
      name = "";
      data = [];
      hasId = false;
      continue;
    }
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + (line[at + 1] === " " ? 2 : 1));
    if (field === "event") {
      name = value;
    } else if (field === "data") {
      data.push(value);
    } else if (field === "id" && !value.includes("\0")) {
      id = value;
      hasId = true;
    } else if (field === "retry" && /^\d+$/.test(value)) {
      onRetry(Number(value));
    }
  }
}

async function* readLines(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return; // what has no end of line is no event
      }
      const text = rest + decoder.decode(value, { stream: true });
      // A carriage return at the end may be the first half of a line end.
      const held = text.endsWith("\r") ? 1 : 0;
      const lines = text.slice(0, text.length - held).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? "") + text.slice(text.length - held);
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the connection may be gone
  }
}

export interface FollowOptions {
  /** A record; those after it come first. Without it, only new ones do. */
  after?: string;
  /** End when no message of the session waits or runs any more. */
  untilIdle?: boolean;
  signal?: AbortSignal;
}

/**
 * Follow a session. A connection that is cut is opened again with `Last-Event-ID`, so that no
 * record is missed and none comes twice. It throws after `retrySeconds` without a server.
 */
export async function* followSession(
  http: Http,
  path: string,
  options: FollowOptions,
): AsyncGenerator<SessionEvent, void, undefined> {
  const query = options.untilIdle ? "?untilIdle=true" : "";
  const stopped = new AbortController();
  const signal = options.signal
    ? AbortSignal.any([options.signal, stopped.signal])
    : stopped.signal;
  let last = options.after ?? "";
  let retryMs = 1_000;
  let isAgain = false;
  let lostAt = 0;
  try {
    for (;;) {
      try {
        const headers: Record<string, string> = last === "" ? {} : { "last-event-id": last };
        const response = await http.open(path + query, headers, signal);
        lostAt = 0;
        const body = response.body ?? new ReadableStream<Uint8Array>();
        for await (const event of readEvents(body, (ms) => (retryMs = ms))) {
          last = event.id || last;
          if (event.name === "") {
            yield { event: "open", id: last, data: { isAgain } };
            isAgain = true;
            continue;
          }
          const data: unknown = JSON.parse(event.data);
          if (event.name === "error") {
            throw new StreamFailed((data as Data["error"]).detail);
          }
          yield { event: event.name, id: last, data } as SessionEvent;
          if (event.name === "idle") {
            return;
          }
        }
      } catch (error) {
        signal.throwIfAborted();
        // Reading a body that is cut throws what the platform throws: a `TypeError`.
        const isCut =
          error instanceof TypeError ||
          error instanceof ConnectionFailed ||
          error instanceof Unavailable;
        lostAt ||= Date.now();
        if (!isCut || Date.now() - lostAt > http.retryMs) {
          throw error;
        }
      }
      await sleep(Math.min(retryMs, 1_000), signal);
    }
  } finally {
    stopped.abort();
  }
}
