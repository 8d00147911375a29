"""Every number that bounds something, with its unit last, and how they relate."""

from typing import Final

FORMAT_VERSION: Final = 1
"""Version written into the header of a new session. See docs/format.md."""

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A longer line is neither written nor parsed: larger payloads belong into blobs."""

NESTING_MAX: Final = 150
"""Levels of lists and objects in arguments, results and content; a deeper value is kept as text."""
RECORD_NESTING_MAX: Final = NESTING_MAX + 10
"""Levels in a line. A deeper one is neither written nor read: every Python that we support walks
this many, from any depth of the caller's stack."""

BATCH_RECORDS_MAX: Final = 10_000
"""Records in one atomic append; a reader holds at most one open batch in memory."""

ID_CHARS_MAX: Final = 112
"""Longest agent, session or record id. The name of a trashed log holds two of them, and no file
system takes more than 255 bytes."""

LABEL_CHARS_MAX: Final = 200
TITLE_CHARS_MAX: Final = 80

DAMAGE_PREVIEW_BYTES: Final = 80
"""Bytes of a damaged line shown in a report; the bytes themselves stay in the log."""

LOCK_WAIT_SECONDS: Final = 10.0
"""Seconds that an append waits for another writer before it fails with a message."""

LEASE_SECONDS: Final = 30.0
LEASE_RENEW_SECONDS: Final = 10.0
"""Seconds that the lease of a turn lasts, and after which it is renewed."""
TURN_WAIT_SECONDS: Final = 300.0
"""Seconds that a turn waits for another one of its session before it fails."""

MESSAGE_KEY_CHARS_MAX: Final = 500
"""The longest key under which a caller stores a message once."""

BLOB_GRACE_SECONDS: Final = 3_600.0
"""A blob younger than this is never collected: its record may be about to be written."""

READ_BLOCK_BYTES: Final = 256 * 1024

AUDIT_FIELD_CHARS_MAX: Final = 600
"""The longest text in a line of the audit log. Our own sentences are shorter."""

WINDOW_FLOOR_TOKENS: Final = 16_000
"""A smaller window is refused unless the caller lowers the floor."""
WINDOW_WARN_TOKENS: Final = 32_000
MESSAGES_TOKENS_MIN: Final = 1_000
"""Tokens that system prompt, tools and reply must leave: then every log has a request."""
OUTPUT_RESERVE_TOKENS: Final = 20_000
"""Kept free for the reply; a quarter of the window where that is less."""

TRIM_ABOVE_CHARS: Final = 4_000
"""Tool results longer than this can be trimmed."""
TRIM_KEEP_CHARS: Final = 3_000
"""Characters that trimming keeps: half from the beginning, half from the end."""
CLEAR_KEEP_ERROR_CHARS: Final = 400
"""Characters that clearing keeps of the end of a result that failed."""
CLEAR_NAMES_TOKENS: Final = 200
CLEAR_NAMES_SHARE: Final = 0.05
"""The most that clearing keeps of the names in a result, in tokens and as a share of it."""

RESULT_CHARS_MAX: Final = 4_000_000
"""A longer tool result is stored head and tail: six bytes a character still fit a line."""

TOOL_VALUE_PARTS_MAX: Final = 1_000_000
TOOL_VALUE_CHARS_MAX: Final = 256 * 1024 * 1024
"""Parts of a value that a tool returns, and characters in them; a larger value is only sketched."""

DATA_URI_CHARS_MAX: Final = 4_000
"""Characters of base64 up to which a data URI in a text is sent as the text that it is: the icons
of a style sheet, a notebook or a mail. For a longer one stands a note with a ref."""
OFFLOAD_TEXT_CHARS: Final = 120_000
"""A tool result with more text than this leaves the log, whatever the window."""
OFFLOAD_SHARE: Final = 0.3
"""And so does one that would take a larger share of the budget."""
OFFLOAD_DETAILS_CHARS: Final = 24_000
OFFLOAD_BINARY_CHARS: Final = 24_000
"""The same for details, as JSON, and for a picture or other data, as base64."""
DETAIL_CHARS_MAX: Final = 500
"""A text among the details that stays when the rest goes."""
PREVIEW_CHARS: Final = 8_000
"""Characters that stay of an offloaded text; fewer in a small window."""
PREVIEW_CHARS_MIN: Final = 600
REF_CHARS: Final = 16
"""Characters of a hash shown as a ref: enough to be unique, few enough to be copied."""

EXCERPT_CHARS: Final = 20_000
"""Characters that one read of an output shows unless asked otherwise."""
EXCERPT_CHARS_MIN: Final = 256
EXCERPT_CHARS_MAX: Final = 120_000
"""The least and the most that one read of an output can be asked for."""
PATTERN_CHARS_MAX: Final = 1_000
PATTERN_SECONDS: Final = 2.0
"""The longest pattern, and the seconds that all its matching in one read may take."""

RESEED_CHARS: Final = 12_288
RESEED_CHARS_MAX: Final = 262_144
"""The least and the most characters of a reseed, however large the window."""
RESEED_WINDOW_SHARE: Final = 0.08
"""And between the two, this share of the window, at four characters a token."""
RESEED_MESSAGES_MAX: Final = 100
"""The summary and the newest messages."""
RESEED_CALL_CHARS: Final = 300
RESEED_RESULT_CHARS: Final = 600
"""Characters that the arguments of a call, or a result, may take of it, in one line."""
RESEED_BOTH_ENDS_CHARS: Final = 400
"""With less room, only the end of a long message is kept."""
RESEED_LEAST_CHARS: Final = 40
"""Less of a summary, or of what the user asked, says nothing."""

HISTORY_BYTES_MAX: Final = 80 * 1024
"""A whole reply of the history, as compact JSON in UTF-8."""
HISTORY_TEXT_CHARS_MAX: Final = 4_000
"""Of any one text in it."""
HISTORY_MESSAGE_SHARE: Final = 0.4
"""Of a reply that one message may take, unless it is the only one."""
HISTORY_ITEMS_MAX: Final = 400
"""Of a list, or fields of an object, in a message of the history."""
HISTORY_DEPTH_MAX: Final = 40
HISTORY_LIMIT_MESSAGES: Final = 200
HISTORY_LIMIT_MESSAGES_MAX: Final = 1_000
"""Messages in a page: the default, and the most."""
HISTORY_SEARCH_CHARS_MAX: Final = 16_000_000
"""Characters that one search reads; its cursor continues from there."""

NOTE_CHARS_MAX: Final = 500
"""A note is one line of a file, and this long without the comment behind it."""
NOTE_RECORDS_MAX: Final = 8
"""Records named in the comment behind a note."""
NOTE_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger file of notes is not added to, and read no further."""
NOTE_FILES_MAX: Final = 10_000
NOTE_DEPTH_MAX: Final = 8
NOTE_NAME_CHARS_MAX: Final = 120
"""Bounds on files of notes, their folders, and the length of their names."""
MEMORY_VIEW_CHARS: Final = 16_000
"""Characters that the memory tool shows at once."""
MEMORY_FILE_CHARS_MAX: Final = 256_000
"""The largest file that the memory tool writes."""
MEMORY_LINES_MAX: Final = 999_999

FOUND_SCAN_CHARS: Final = 32_768
"""Characters of one stored record that are looked at for credentials before a warning: about 5 ms.
What is longer has mostly been moved out of the record already."""
FOUND_VALUE_CHARS_MIN: Final = 8
"""A shorter value that is only a guess stands in too many other texts to become a handle."""
FOUND_VALUES_MAX: Final = 1_000
"""Found values that one session object keeps: each of them is looked for in every later record."""

CONTEXT_CHARS: Final = 12_000
"""Characters of injected context that a request shows; the record has all of it."""
CONTEXT_CHARS_MAX: Final = 1_000_000
"""The longest text that can be injected."""
CHECKPOINT_CHARS: Final = 4_000
CHECKPOINT_CUT_CHARS: Final = 2_000
"""Characters of a checkpoint where it is shown: in a fresh session, and beside a compaction."""
CHECKPOINT_REQUESTS_MAX: Final = 60
CHECKPOINT_REQUEST_CHARS: Final = 600
CHECKPOINT_ENTRIES_MAX: Final = 20
"""Of every list that has no number of its own."""
CHECKPOINT_ENTRY_CHARS: Final = 300
CHECKPOINT_EXCHANGE_CHARS: Final = 2_000
"""Of what was said last, and of the last answer."""
CHECKPOINT_TASKS_MAX: Final = 60
CHECKPOINT_FILES_MAX: Final = 1_000
CHECKPOINT_CALLS_MAX: Final = 64
"""Calls that still wait for a result, and tools that are counted by name."""
CHECKPOINT_TRIED_MAX: Final = 3
"""Attempts kept after an error."""

SIDECAR_ITEMS_MAX: Final = 60
SIDECAR_ITEM_CHARS: Final = 220
SIDECAR_CHARS: Final = 1_200
"""Characters of a running summary where it is shown."""
SIDECAR_BYTES_MAX: Final = 1024 * 1024
"""A larger file is none of ours."""

PASSAGE_CHARS_MAX: Final = 1_000
"""Characters of a passage: about 250 tokens, all of which the offline embeddings can read."""
RECALL_LIMIT: Final = 30
RECALL_LIMIT_MAX: Final = 100
"""Hits of a search: the default, and the most."""
RECALL_TURNS_MAX: Final = 2
"""Turns shown on either side of a hit: the other speaker's, and the next one of the same."""
RECALL_TURN_CHARS_MAX: Final = 400
"""Of a hit in a prompt, and of a turn beside it: a question, or the beginning of an answer."""
RECALL_QUERY_CHARS_MAX: Final = 8_000
"""Of a query; the rest of a longer one is not looked for."""
RECALL_CANDIDATES_MAX: Final = 400
"""Passages that are ranked closely, whatever the limit, so that a larger limit only adds hits."""
RECALL_POSTINGS_MAX: Final = 6_000
"""Postings that one query looks up, the rarest terms first."""
RECALL_EMBED_MAX: Final = 32
"""New passages that a search embeds before it answers; with more, it answers by text alone."""
INJECTION_CHARS: Final = 4_000
"""Characters of recalled memory in a prompt, markers included."""
STANDING_CHARS_MAX: Final = 1_000
"""And of standing instructions beside it, with their citations."""
STANDING_EXCHANGES_MAX: Final = 128
"""Exchanges that a search looks at for standing instructions, the newest."""

assert BATCH_RECORDS_MAX > 1
assert 2 * LEASE_RENEW_SECONDS < LEASE_SECONDS < TURN_WAIT_SECONDS
assert 6 * RESULT_CHARS_MAX < LINE_BYTES_MAX
assert READ_BLOCK_BYTES < LINE_BYTES_MAX
assert WINDOW_FLOOR_TOKENS < WINDOW_WARN_TOKENS
assert CLEAR_KEEP_ERROR_CHARS < TRIM_KEEP_CHARS < TRIM_ABOVE_CHARS
assert PREVIEW_CHARS_MIN < PREVIEW_CHARS < OFFLOAD_TEXT_CHARS < RESULT_CHARS_MAX
assert EXCERPT_CHARS_MIN < EXCERPT_CHARS < EXCERPT_CHARS_MAX
assert RESEED_LEAST_CHARS < RESEED_BOTH_ENDS_CHARS < RESEED_CHARS < RESEED_CHARS_MAX
assert NOTE_CHARS_MAX < MEMORY_VIEW_CHARS < MEMORY_FILE_CHARS_MAX < NOTE_FILE_BYTES_MAX
assert CHECKPOINT_CUT_CHARS < CHECKPOINT_CHARS < CONTEXT_CHARS < CONTEXT_CHARS_MAX
assert 8 * SIDECAR_ITEMS_MAX * SIDECAR_ITEM_CHARS < SIDECAR_BYTES_MAX
assert RECALL_LIMIT < RECALL_LIMIT_MAX < RECALL_CANDIDATES_MAX < RECALL_POSTINGS_MAX
