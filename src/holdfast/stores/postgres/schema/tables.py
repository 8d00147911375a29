"""The tables.

Everything a user can put into a record is `bytea`: the server refuses NUL and lone surrogates in
text. `active_slot` is the time of last use in steps of 8 s, for the index: a time that changed with
every append would make every append write to all indexes of the table. A position is the byte
offset that the line has in the log's JSONL file, so that an export is the same bytes, and a
positional id (`@57`) means the same record, on every store.
"""

from __future__ import annotations

from typing import Final

TABLES_1: Final = """
CREATE TABLE {s}.logs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  agent text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  state smallint NOT NULL DEFAULT 0,
  trash_name text COLLATE "C",
  removed double precision,
  size bigint NOT NULL DEFAULT 0,
  head bytea NOT NULL DEFAULT '',
  writer bytea NOT NULL DEFAULT '',
  live_from bigint,
  label bytea NOT NULL DEFAULT '',
  title bytea NOT NULL DEFAULT '',
  created double precision NOT NULL DEFAULT 0,
  last_active double precision NOT NULL DEFAULT 0,
  active_slot double precision NOT NULL DEFAULT 0,
  records bigint NOT NULL DEFAULT 0,
  messages bigint NOT NULL DEFAULT 0,
  damaged bigint NOT NULL DEFAULT 0,
  is_plain boolean NOT NULL DEFAULT true,
  turns bigint NOT NULL DEFAULT 0,
  calls bigint NOT NULL DEFAULT 0,
  tools bigint NOT NULL DEFAULT 0,
  unknown bigint NOT NULL DEFAULT 0,
  totals jsonb NOT NULL DEFAULT '{}',
  stated_cost double precision NOT NULL DEFAULT 0,
  parent_session bytea,
  reason bytea,
  owner bytea,
  lease_token bigint NOT NULL DEFAULT 0,
  lease_holder bytea,
  lease_try bytea,
  lease_since timestamptz,
  lease_until timestamptz
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX logs_name ON {s}.logs (lower(agent), lower(session)) WHERE state = 0;
CREATE INDEX logs_key ON {s}.logs (agent, session);
CREATE INDEX logs_active ON {s}.logs (active_slot DESC) WHERE state = 0;
CREATE INDEX logs_owner ON {s}.logs (md5(owner), active_slot DESC)
  WHERE state = 0 AND owner <> '';
CREATE INDEX logs_label ON {s}.logs (md5(label)) WHERE state = 0 AND label <> '';
CREATE INDEX logs_left ON {s}.logs (state) WHERE state > 0;
CREATE SEQUENCE {s}.lease_tokens;
CREATE UNLOGGED TABLE {s}.lease_queue (
  log bigint NOT NULL,
  holder bytea NOT NULL,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (log, holder)
);

CREATE TABLE {s}.records (
  log bigint NOT NULL,
  position bigint NOT NULL,
  id bytea,
  message_key bytea,
  line bytea NOT NULL,
  PRIMARY KEY (log, position)
) WITH (toast_tuple_target = 4080);
CREATE INDEX records_id ON {s}.records (log, id);
CREATE INDEX records_message_key ON {s}.records (log, message_key) WHERE message_key IS NOT NULL;

CREATE TABLE {s}.blobs (
  sha256 bytea PRIMARY KEY,
  size bigint NOT NULL,
  stored timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE {s}.blob_pieces (
  sha256 bytea NOT NULL REFERENCES {s}.blobs ON DELETE CASCADE,
  number integer NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (sha256, number)
);
ALTER TABLE {s}.blob_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE {s}.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entry bytea NOT NULL
);
CREATE TABLE {s}.summaries (
  agent text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (agent, session)
);

CREATE TABLE {s}.notes (
  agent text COLLATE "C" NOT NULL,
  owner bytea NOT NULL,
  scope bytea NOT NULL,
  place bytea NOT NULL,
  path bytea NOT NULL,
  data bytea NOT NULL,
  version bigint GENERATED ALWAYS AS IDENTITY,
  changed double precision NOT NULL,
  PRIMARY KEY (scope, place)
);

CREATE TABLE {s}.sources (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL,
  place bytea NOT NULL,
  name bytea NOT NULL,
  stamp bytea NOT NULL,
  head bytea NOT NULL,
  passages bigint NOT NULL DEFAULT 0,
  terms bigint NOT NULL DEFAULT 0,
  oldest double precision,
  newest double precision,
  UNIQUE (kind, place)
);
CREATE TABLE {s}.passages (
  id bigint PRIMARY KEY,
  role text COLLATE "C" NOT NULL,
  record bytea NOT NULL,
  first_line integer NOT NULL,
  last_line integer NOT NULL,
  ts double precision,
  text bytea NOT NULL,
  terms bytea NOT NULL
);
CREATE TABLE {s}.postings (
  term bytea NOT NULL,
  passage bigint NOT NULL,
  times integer NOT NULL,
  PRIMARY KEY (term, passage)
);
CREATE INDEX postings_passage ON {s}.postings (passage);
CREATE TABLE {s}.vectors (id bigint PRIMARY KEY, vector bytea NOT NULL);
CREATE TABLE {s}.vector_model (name bytea NOT NULL);

CREATE TABLE {s}.messages (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text COLLATE "C" NOT NULL,
  lane bytea NOT NULL,
  owner bytea NOT NULL,
  session bytea NOT NULL,
  key bytea NOT NULL,
  body bytea NOT NULL,
  state text COLLATE "C" NOT NULL DEFAULT 'waiting',
  tries integer NOT NULL DEFAULT 0,
  claims bigint NOT NULL DEFAULT 0,
  created timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed timestamptz NOT NULL DEFAULT clock_timestamp(),
  due timestamptz NOT NULL DEFAULT clock_timestamp(),
  holder bytea NOT NULL DEFAULT '',
  since timestamptz,
  until timestamptz,
  reason bytea NOT NULL DEFAULT '',
  result bytea
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX messages_key ON {s}.messages (queue, md5(owner), md5(key));
CREATE INDEX messages_open ON {s}.messages (queue, md5(lane), id)
  WHERE state IN ('waiting', 'running');
CREATE INDEX messages_owner ON {s}.messages (md5(owner), id);
CREATE INDEX messages_lane ON {s}.messages (md5(lane), id);
CREATE INDEX messages_session ON {s}.messages (md5(session)) WHERE session <> '';
"""
"""Everything: sessions, payloads, the audit log, summaries, notes, the memory index, queues."""

TABLES_2: Final = """
ALTER TABLE {s}.messages ADD COLUMN lost_claims integer NOT NULL DEFAULT 0;
"""
"""Claims of messages that had no outcome."""
