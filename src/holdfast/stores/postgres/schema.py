"""The tables, and the steps that bring a database from one version of them to the next.

Steps only go forward, and only add: a process of an older version goes on beside a newer schema for
as long as `oldest` allows it. They run in one transaction under a lock, so that of many processes
that start at once one makes the tables, and a crash leaves the version before. The functions that
append are each one statement for their caller.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreUnavailable

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections


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

TABLES_3: Final = """
DROP TABLE {s}.postings, {s}.passages, {s}.sources, {s}.vectors;
CREATE TABLE {s}.sources (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL,
  place bytea NOT NULL,
  owned bytea NOT NULL,
  is_ended boolean NOT NULL DEFAULT false,
  passages bigint NOT NULL DEFAULT 0,
  terms bigint NOT NULL DEFAULT 0,
  oldest double precision,
  newest double precision,
  facts bytea NOT NULL
);
CREATE UNIQUE INDEX sources_place ON {s}.sources (place, kind) WHERE NOT is_ended;
CREATE INDEX sources_ended ON {s}.sources (place) WHERE is_ended;
CREATE INDEX sources_owned ON {s}.sources (owned);
CREATE TABLE {s}.origins (
  place bytea NOT NULL,
  source bigint NOT NULL,
  PRIMARY KEY (place, source)
);
CREATE INDEX origins_source ON {s}.origins (source);
CREATE TABLE {s}.texts (id bigint PRIMARY KEY, data bytea NOT NULL);
ALTER TABLE {s}.texts ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE {s}.segments (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owned bytea NOT NULL,
  passages bigint NOT NULL,
  head bytea NOT NULL
);
ALTER TABLE {s}.segments ALTER COLUMN head SET STORAGE EXTERNAL;
CREATE INDEX segments_owned ON {s}.segments (owned);
CREATE TABLE {s}.blocks (
  segment bigint NOT NULL,
  number integer NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (segment, number)
);
ALTER TABLE {s}.blocks ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE {s}.vectors (id bigint PRIMARY KEY, vector bytea NOT NULL);
CREATE INDEX logs_parent ON {s}.logs (md5(parent_session)) WHERE state = 0;
CREATE INDEX logs_unknown ON {s}.logs (id) WHERE state = 0 AND owner IS NULL;
"""
"""The memory index by owner, in segments. What it was before is made again from the logs."""

TABLES_4: Final = """
TRUNCATE {s}.sources, {s}.origins, {s}.texts, {s}.segments, {s}.blocks, {s}.vectors;
"""
"""Segments have the facts that rank a passage. They are made again from the logs."""


_FACTS: Final = """size = l.size + @size, head = @last, writer = a_writer,
  records = l.records + @count, messages = l.messages + @messages,
  title = CASE WHEN l.title = '' THEN @title ELSE l.title END,
  label = COALESCE(@label, l.label),
  created = CASE WHEN l.created = 0 THEN @created ELSE l.created END,
  last_active = GREATEST(l.last_active, @active),
  active_slot = floor(GREATEST(l.last_active, @active) / 8),
  turns = l.turns + @turns, calls = l.calls + @calls, tools = l.tools + @tools,
  unknown = l.unknown + @unknown, stated_cost = l.stated_cost + @cost,
  totals = CASE WHEN @totals IS NULL THEN l.totals ELSE {s}.add_totals(l.totals, @totals) END"""
"""The facts about a session that an append changes; `@` stands before what it adds."""

_FUNCTIONS: Final = """
CREATE FUNCTION {s}.add_totals(kept jsonb, added jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $add$
BEGIN
  IF kept = '{}' THEN
    RETURN added;
  END IF;
  RETURN kept || (
    SELECT jsonb_object_agg(t.key, COALESCE((kept ->> t.key)::numeric, 0) + t.value::numeric)
    FROM jsonb_each_text(added) AS t
  );
END
$add$;

CREATE FUNCTION {s}.append_1(
  a_agent text, a_session text, a_expect bytea, a_token bigint, a_claimed bytea[],
  a_ids bytea[], a_keys bytea[], a_offsets bigint[], a_lines bytea[], a_size bigint,
  a_writer bytea, is_buffered boolean, is_repeated boolean, is_ordered boolean,
  a_title bytea, a_label bytea, a_created double precision, a_active double precision,
  a_messages bigint, a_kept bytea, a_boundary bytea, a_turns bigint, a_calls bigint,
  a_tools bigint, a_unknown bigint, a_totals jsonb, a_cost double precision,
  OUT outcome text, OUT head bytea, OUT detail bytea
) LANGUAGE plpgsql AS $append$
DECLARE
  held {s}.logs%ROWTYPE;
  a_count bigint := array_length(a_ids, 1);
  a_first bytea := a_ids[1];
  a_last bytea := a_ids[a_count];
  is_checked boolean := a_claimed IS NULL AND NOT is_repeated;
  number bigint;
  base bigint;
BEGIN
  -- A commit that is to be durable waits, whatever the server is set to.
  IF is_buffered THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  LOOP
    IF is_checked THEN
      -- Takes the lock, compares, and writes the facts. Its plan is made once for a connection:
      -- a subquery in it would be planned again at every append.
      UPDATE {s}.logs AS l SET
        {facts of a_}
        WHERE l.agent = a_agent AND l.session = a_session AND l.state = 0
          AND (a_expect IS NULL OR a_expect = l.head)
          AND (a_token IS NULL OR a_token = l.lease_token)
          AND (is_ordered AND l.head >= a_first
            AND encode(l.head, 'escape') ~ '^[0-9a-f]{18}$') IS NOT TRUE
        RETURNING l.id, l.size - a_size INTO number, base;
      EXIT WHEN FOUND;
    END IF;
    -- Says why nothing was updated, or looks for ids first. Under the lock, nothing changes.
    SELECT * INTO held FROM {s}.logs AS l
      WHERE l.agent = a_agent AND l.session = a_session AND l.state = 0 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      outcome := 'absent';
      RETURN;
    END IF;
    head := held.head;
    -- After a lost connection: the lock above waited for the first try, if it still ran.
    IF is_repeated THEN
      IF EXISTS (
        SELECT FROM {s}.records r WHERE r.log = held.id AND r.id = a_first AND r.line = a_lines[1]
      ) THEN
        outcome := 'appended';
        RETURN;
      END IF;
    END IF;
    IF a_token <> held.lease_token THEN
      outcome := 'lease';
      detail := held.lease_holder;
      RETURN;
    END IF;
    IF a_expect <> held.head THEN
      outcome := 'conflict';
      detail := held.writer;
      RETURN;
    END IF;
    IF a_claimed IS NOT NULL THEN
      SELECT r.id INTO detail FROM {s}.records r
        WHERE r.log = held.id AND r.id = ANY (a_claimed) LIMIT 1;
      IF FOUND THEN
        outcome := 'repeat';
        RETURN;
      END IF;
    END IF;
    -- New ids follow the head, where it is an id of ours and not one that a caller chose.
    IF is_ordered AND held.head >= a_first AND encode(held.head, 'escape') ~ '^[0-9a-f]{18}$' THEN
      outcome := 'order';
      RETURN;
    END IF;
    is_checked := true;
  END LOOP;
  INSERT INTO {s}.records (log, position, id, message_key, line)
    SELECT number, base + u.start, u.id, u.message_key, u.line
    FROM unnest(a_offsets, a_ids, a_keys, a_lines) AS u(start, id, message_key, line);
  IF a_boundary IS NOT NULL THEN
    UPDATE {s}.logs AS l SET live_from = (
        SELECT min(r.position) FROM {s}.records r
        WHERE r.log = number AND r.id IN (a_kept, a_boundary)
      ) WHERE l.id = number;
  END IF;
  head := a_last;
  outcome := 'appended';
END
$append$;

CREATE FUNCTION {s}.append_group_1(
  a_writer bytea, c_agents text[], c_sessions text[], c_expects bytea[], c_tokens bigint[],
  c_sizes bigint[], c_titles bytea[], c_labels bytea[], c_created double precision[],
  c_active double precision[], c_messages bigint[], c_turns bigint[], c_calls bigint[],
  c_tools bigint[], c_unknown bigint[], c_totals jsonb[], c_costs double precision[],
  c_firsts bytea[], c_lasts bytea[], c_counts bigint[],
  r_calls bigint[], r_starts bigint[], r_ids bytea[], r_keys bytea[], r_lines bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SET enable_seqscan = off AS $group$
DECLARE
  numbers bigint[];
  bases bigint[];
  done bigint[];
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- Takes the locks in the order of the calls, and compares as `append_1` does. The log of a
  -- session to which nothing will be appended is 0.
  SELECT array_agg(COALESCE(f.id, 0) ORDER BY c.n), array_agg(COALESCE(f.size, 0) ORDER BY c.n),
    array_agg(c.n ORDER BY c.n) FILTER (WHERE f.id > 0)
    INTO numbers, bases, done
    FROM unnest(c_agents, c_sessions, c_expects, c_tokens, c_firsts) WITH ORDINALITY
      AS c(agent, session, expect, token, first, n)
    LEFT JOIN LATERAL (
      SELECT l.size, CASE WHEN (c.expect IS NULL OR c.expect = l.head)
        AND (c.token IS NULL OR c.token = l.lease_token)
        AND (l.head >= c.first AND encode(l.head, 'escape') ~ '^[0-9a-f]{18}$') IS NOT TRUE
        THEN l.id ELSE 0 END AS id
      FROM {s}.logs AS l
      WHERE l.agent = c.agent AND l.session = c.session AND l.state = 0 FOR NO KEY UPDATE
    ) AS f ON true;
  UPDATE {s}.logs AS l SET
    {facts of c.}
    FROM unnest(numbers, c_sizes, c_titles, c_labels, c_created, c_active, c_messages, c_turns,
      c_calls, c_tools, c_unknown, c_totals, c_costs, c_lasts, c_counts)
      AS c(log, size, title, label, created, active, messages, turns, calls, tools, unknown,
      totals, cost, last, count)
    WHERE l.id = c.log AND l.id = ANY (numbers);
  INSERT INTO {s}.records (log, position, id, message_key, line)
    SELECT numbers[r.call], bases[r.call] + r.start, r.id, r.message_key, r.line
    FROM unnest(r_calls, r_starts, r_ids, r_keys, r_lines) AS r(call, start, id, message_key, line)
    WHERE numbers[r.call] > 0;
  RETURN done;
END
$group$;
"""

FUNCTIONS_1: Final = _FUNCTIONS.replace("{facts of a_}", _FACTS.replace("@", "a_")).replace(
    "{facts of c.}", _FACTS.replace("@", "c.")
)


TABLES_5: Final = """
CREATE INDEX IF NOT EXISTS messages_open_id ON {s}.messages (queue, id)
  WHERE state IN ('waiting', 'running');
"""
"""An index of the messages that are open, the newest first."""

TABLES_6: Final = """
CREATE TABLE {s}.spending_accounts (
  kind text COLLATE "C" NOT NULL,
  name bytea NOT NULL,
  period text COLLATE "C" NOT NULL,
  requests bigint NOT NULL DEFAULT 0,
  tokens bigint NOT NULL DEFAULT 0,
  nanodollars bigint NOT NULL DEFAULT 0,
  held_tokens bigint NOT NULL DEFAULT 0,
  held_nanodollars bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX spending_accounts_place ON {s}.spending_accounts (kind, md5(name), period);
CREATE INDEX spending_accounts_period ON {s}.spending_accounts (period, requests);
CREATE TABLE {s}.spending_calls (
  name bytea PRIMARY KEY,
  at double precision NOT NULL,
  state smallint NOT NULL,
  accounts bytea NOT NULL,
  tokens bigint NOT NULL,
  nanodollars bigint NOT NULL
);
CREATE INDEX spending_calls_time ON {s}.spending_calls (state, at);
"""
"""The sums of budgets, and the calls that are counted in them."""

VERSION: Final = 6
"""The version of the tables that this code works with."""
OLDEST: Final = 4
"""The oldest version whose code can work with them: one before cannot read the
segments of the memory index."""

STEPS: Final = (TABLES_1 + FUNCTIONS_1, TABLES_2, TABLES_3, TABLES_4, TABLES_5, TABLES_6)
"""The statements that lead from each version to the next."""
assert len(STEPS) == VERSION

_COMPRESSION: Final = "ALTER TABLE {s}.records ALTER COLUMN line SET COMPRESSION lz4"
_LOCK: Final = 0x686F6C64
"""The advisory lock of every change of a schema, on one server ("hold")."""


def prepare(connections: Connections) -> None:
    """Make the tables, or bring them to this version; raises where that cannot be done."""
    if _read_version(connections) < VERSION:
        connections.run("make the tables", lambda connection: _migrate(connections, connection))


def _read_version(connections: Connections) -> int:
    """Return the version of the tables, 0 where there are none. Raises where they are too new."""
    schema = connections.address.schema
    query = "SELECT to_regclass(%s) IS NOT NULL"
    is_there = connections.rows("open the database", query, [f'"{schema}".version'])[0][0]
    if not is_there:
        return 0
    found = connections.rows("read its version", "SELECT version, oldest FROM {s}.version")
    version, oldest = found[0] if found else (0, 0)
    if oldest > VERSION:
        raise StoreUnavailable(
            f"cannot open {connections.address.shown}: its tables have version {version}, and "
            f"this Holdfast works with version {VERSION}",
            hint="nothing was changed; install the newer Holdfast on this machine too",
        )
    return int(version)


def _migrate(connections: Connections, connection: Connection) -> None:
    def execute(query: str) -> None:
        connection.execute(connections.format(query).encode())

    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        execute("CREATE SCHEMA IF NOT EXISTS {s}")
        execute(
            "CREATE TABLE IF NOT EXISTS {s}.version (version integer NOT NULL, oldest integer "
            "NOT NULL)"
        )
        row = connection.execute(
            connections.format("SELECT version FROM {s}.version FOR UPDATE").encode()
        ).fetchone()
        done = row[0] if row else 0
        if not row:
            execute("INSERT INTO {s}.version VALUES (0, 0)")
        for step in STEPS[done:]:
            execute(step)
        if done == 0:
            _compress(connection, connections.format(_COMPRESSION))
        connection.execute(
            connections.format("UPDATE {s}.version SET version = %s, oldest = %s").encode(),
            [VERSION, OLDEST],
        )


def _compress(connection: Connection, statement: str) -> None:
    """Use the faster compression, where the server was built with it."""
    import psycopg

    with suppress(psycopg.Error), connection.transaction():
        connection.execute(statement.encode())
