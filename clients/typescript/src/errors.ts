/** Errors of the server, by their status: what was asked, what was found, what to do next. */

import type { components } from "./schema.ts";

/** The body of every error of the server (RFC 9457). */
export type ProblemDetails = components["schemas"]["ProblemDetails"];

/** Every error of this package. */
export class HoldfastError extends Error {
  override name = "HoldfastError";
}

/** No answer came, also after the attempts of `retrySeconds`. */
export class ConnectionFailed extends HoldfastError {
  override name = "ConnectionFailed";
}

/** The turn of a message ended without an answer: it failed, or was set aside. */
export class TurnFailed extends HoldfastError {
  override name = "TurnFailed";
  /** The message, as the inbox has it. */
  readonly inboxMessage: components["schemas"]["InboxMessage"];

  constructor(message: components["schemas"]["InboxMessage"]) {
    super(`Message ${message.id} of ${message.session} is ${message.state}: ${message.reason}`);
    this.inboxMessage = message;
  }
}

/** The message was sent before, and has its answer: the model is not called again. */
export class AlreadyAnswered extends HoldfastError {
  override name = "AlreadyAnswered";
  /** The record of the answer. */
  readonly record: string;
  readonly text: string;

  constructor(record: string, text: string) {
    super(`The message has its answer, in record ${record}; another message needs another key`);
    this.record = record;
    this.text = text;
  }
}

/** The stream of a session ended because the session cannot be read. */
export class StreamFailed extends HoldfastError {
  override name = "StreamFailed";
}

/** The provider refused the request, and no smaller one would help. */
export class ProviderRefused extends HoldfastError {
  override name = "ProviderRefused";
  readonly status: number;
  readonly body: string;
  readonly retryAfter: number | undefined;

  constructor(status: number, body: string, retryAfter: number | undefined, cause: unknown) {
    super(`The provider refused the request (${status}): ${body.slice(0, 500)}`, { cause });
    this.status = status;
    this.body = body;
    this.retryAfter = retryAfter;
  }
}

/** The server refused a request. Its subclasses are the kinds of refusals. */
export class RequestRefused extends HoldfastError {
  override name = "RequestRefused";
  readonly status: number;
  /** The name of the error, for programs; empty where it has none. */
  readonly code: string;
  /** The next step, in a sentence. */
  readonly hint: string;
  readonly problem: ProblemDetails;

  constructor(problem: ProblemDetails) {
    super(problem.hint ? `${problem.detail} (${problem.hint})` : problem.detail);
    this.status = problem.status;
    this.code = problem.code ?? "";
    this.hint = problem.hint ?? "";
    this.problem = problem;
  }
}

/** 400: the request cannot be read. */
export class BadRequest extends RequestRefused {
  override name = "BadRequest";
}

/** 401: the token is missing, wrong or has expired. */
export class Unauthorized extends RequestRefused {
  override name = "Unauthorized";
}

/** 403: the token has another scope or owner. */
export class Forbidden extends RequestRefused {
  override name = "Forbidden";
}

/** 404: it is not there, or belongs to another owner. */
export class NotFound extends RequestRefused {
  override name = "NotFound";
}

/** 409: it is not as it was, or a key was used for something else. */
export class Conflict extends RequestRefused {
  override name = "Conflict";
}

/** 413: the body is too large. */
export class TooLarge extends RequestRefused {
  override name = "TooLarge";
}

/** 422: it cannot be carried out; a request does not fit the window, for one. */
export class CannotBeDone extends RequestRefused {
  override name = "CannotBeDone";
}

/** 429: too many requests, or too many messages that wait. */
export class RateLimited extends RequestRefused {
  override name = "RateLimited";
  /** Seconds to wait, where the server says so. */
  readonly retryAfter: number | undefined;

  constructor(problem: ProblemDetails, retryAfter: number | undefined) {
    super(problem);
    this.retryAfter = retryAfter;
  }
}

/** 503: the server or its store is not available now. */
export class Unavailable extends RequestRefused {
  override name = "Unavailable";
}

const BY_STATUS: { readonly [status: number]: new (problem: ProblemDetails) => RequestRefused } = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: TooLarge,
  422: CannotBeDone,
  503: Unavailable,
};

/** The error that a response is. It reads the body. */
export async function errorOf(response: Response): Promise<RequestRefused> {
  const problem = readProblem(response, await response.text());
  if (response.status === 429) {
    return new RateLimited(problem, retryAfterOf(response));
  }
  return new (BY_STATUS[response.status] ?? RequestRefused)(problem);
}

/** Seconds to wait, as a response says. */
export function retryAfterOf(response: Response): number | undefined {
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds : undefined;
}

function readProblem(response: Response, text: string): ProblemDetails {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "detail" in found) {
      return found as ProblemDetails;
    }
  } catch {
    // a proxy before the server answered
  }
  const title = response.statusText || "Error";
  const detail = `the server answered with status ${response.status}: ${text.slice(0, 200)}`;
  return { title, status: response.status, detail };
}
