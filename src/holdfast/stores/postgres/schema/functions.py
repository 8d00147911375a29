"""The functions that append: each is one statement for its caller."""

from __future__ import annotations

from typing import Final

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
