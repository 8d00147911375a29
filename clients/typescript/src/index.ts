/** The client of Holdfast: sessions, their events, and loops of your own, over HTTP. */

export * from "./errors.ts";
export { type LoggedRecord, type SessionEvent, type StreamOpen, type FollowOptions, isRecord } from "./events.ts";
export { Http, type CallOptions, type HttpOptions } from "./http.ts";
export {
  OwnLoop,
  type Json,
  type LoopPosition,
  type LoopRun,
  type LoopTerms,
  type PreparedCall,
  type ProviderRefusal,
  type RecordedReply,
  type ToolDeclaration,
  type ToolRun,
} from "./loop.ts";
export { HoldfastClient, HoldfastSession, type Content, type InboxMessage, type Schemas, type SendOptions } from "./session.ts";
export type { components, operations, paths } from "./schema.ts";
