/** Requests to the server, typed by its OpenAPI document, repeated where that is safe. */

import { ConnectionFailed, HoldfastError, RateLimited, Unavailable, errorOf } from "./errors.ts";
import type { paths } from "./schema.ts";

type Method = "get" | "post" | "put" | "patch" | "delete";
/** The addresses that take a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: object } ? P : never;
}[keyof paths];
type OperationOf<M extends Method, P extends keyof paths> = paths[P] extends {
  [K in M]: infer O;
}
  ? O
  : never;
type PartOf<O, N extends "path" | "query"> = O extends { parameters: infer G }
  ? N extends keyof G
    ? NonNullable<G[N]>
    : never
  : never;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer B } } }
  ? B
  : never;
type AnswerOf<O> = O extends { responses: infer R }
  ? {
      [S in keyof R]: S extends 200 | 201 | 202
        ? R[S] extends { content: { "application/json": infer J } }
          ? J
          : never
        : never;
    }[keyof R]
  : never;
type Field<N extends string, T> = [T] extends [never]
  ? { [K in N]?: undefined }
  : object extends T
    ? { [K in N]?: T }
    : { [K in N]: T };

/** The parts of a request: what its address names, its query and its body. */
export type Asked<O> = Field<"path", PartOf<O, "path">> &
  Field<"query", PartOf<O, "query">> &
  Field<"body", BodyOf<O>>;

export interface CallOptions {
  /** Ends the request and its repetitions. */
  signal?: AbortSignal;
  /** The `Idempotency-Key`: what is stored under it is stored once. */
  key?: string;
  /** May the request be sent again where no answer came? Reading, and what has a key, may. */
  canRepeat?: boolean;
}

export interface HttpOptions {
  /** The address of `holdfast serve`. */
  baseUrl: string;
  /** The token of the server; none where it takes none. */
  token?: string;
  /** How long a request that got no answer, or 429 or 503, is sent again (30). 0 is never. */
  retrySeconds?: number;
  /** The function that sends requests, in place of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

export class Http {
  readonly #base: string;
  readonly #token: string;
  readonly #retryMs: number;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: HttpOptions) {
    if (!URL.canParse(options.baseUrl)) {
      throw new HoldfastError(`\`baseUrl\` is no address: ${options.baseUrl}`);
    }
    this.#base = options.baseUrl.replace(/\/+$/, "");
    this.#token = options.token ?? "";
    this.#retryMs = (options.retrySeconds ?? 30) * 1_000;
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Send a request, and return the answer. Throws `RequestRefused` or `ConnectionFailed`. */
  async request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    asked: Asked<OperationOf<M, P>>,
    options: CallOptions = {},
  ): Promise<AnswerOf<OperationOf<M, P>>> {
    const parts: { path?: object | undefined; query?: object | undefined; body?: unknown } = asked;
    const url = this.#base + fill(String(path), parts.path) + queryOf(parts.query);
    const headers: Record<string, string> = this.headers();
    if (options.key !== undefined) {
      headers["idempotency-key"] = options.key;
    }
    const init: RequestInit = { method: method.toUpperCase(), headers };
    if (method !== "get" && method !== "delete") {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(parts.body ?? {});
    }
    if (options.signal !== undefined) {
      init.signal = options.signal;
    }
    const canRepeat = options.canRepeat ?? (method === "get" || options.key !== undefined);
    const response = await this.#send(url, init, canRepeat);
    return (await response.json()) as AnswerOf<OperationOf<M, P>>;
  }

  /** Open a stream of events. Throws as `request` does, and repeats nothing. */
  async open(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await this.#once(this.#base + path, {
      headers: { ...this.headers(), accept: "text/event-stream", ...headers },
      signal,
    });
    if (!response.ok) {
      throw await errorOf(response);
    }
    return response;
  }

  /** How long what got no answer is tried again, in milliseconds. */
  get retryMs(): number {
    return this.#retryMs;
  }

  private headers(): Record<string, string> {
    return this.#token === "" ? {} : { authorization: `Bearer ${this.#token}` };
  }

  async #send(url: string, init: RequestInit, canRepeat: boolean): Promise<Response> {
    const end = Date.now() + this.#retryMs;
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      let failure: HoldfastError;
      let pause = wait * (0.5 + Math.random() / 2);
      let mayRepeat = canRepeat;
      try {
        const response = await this.#once(url, init);
        if (response.ok) {
          return response;
        }
        failure = await errorOf(response);
      } catch (error) {
        if (!(error instanceof ConnectionFailed)) {
          throw error;
        }
        failure = error;
      }
      if (failure instanceof RateLimited) {
        pause = Math.max(pause, 1_000 * (failure.retryAfter ?? 0));
        mayRepeat = true; // nothing was done
      } else if (!(failure instanceof Unavailable || failure instanceof ConnectionFailed)) {
        throw failure;
      }
      if (!mayRepeat || Date.now() + pause > end) {
        throw failure;
      }
      await sleep(pause, init.signal ?? undefined);
    }
  }

  async #once(url: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#fetch(url, init);
    } catch (error) {
      if (init.signal?.aborted) {
        throw error;
      }
      throw new ConnectionFailed(`No answer from ${new URL(url).origin}: ${String(error)}`, {
        cause: error,
      });
    }
  }
}

/** Wait. Throws the reason of `signal` when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function fill(path: string, parts: object = {}): string {
  const known = new Map<string, unknown>(Object.entries(parts));
  return path.replace(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(String(known.get(name) ?? "")),
  );
}

function queryOf(query: object = {}): string {
  const pairs = Object.entries(query as { [name: string]: unknown })
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [name, String(value)]);
  return pairs.length > 0 ? `?${new URLSearchParams(pairs).toString()}` : "";
}
