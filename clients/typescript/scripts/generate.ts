/** Writes src/schema.ts from the OpenAPI document of this repository's gateway. */

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString, type OpenAPI3 } from "openapi-typescript";

const HERE = new URL("../", import.meta.url);
const ROOT = fileURLToPath(new URL("../../", HERE));
const PLACE = fileURLToPath(new URL("src/schema.ts", HERE));
const HEAD = "// Written by `npm run generate` from the OpenAPI document. Do not edit.\n\n";

type Json = { [name: string]: unknown };

/** The types of a stream's events, which the document has beside the media type. */
function eventsOf(document: OpenAPI3): Json {
  const found: Json = {};
  for (const item of Object.values(document.paths ?? {})) {
    for (const operation of Object.values(item as Json)) {
      const { operationId, responses } = operation as { operationId: string; responses: Json };
      const answer = responses["200"] as { content?: Json } | undefined;
      const stream = answer?.content?.["text/event-stream"] as Json | undefined;
      const events = stream?.["x-events"] as Json | undefined;
      if (events !== undefined) {
        found[`${operationId}_stream`] = {
          type: "object",
          description: "The data of each event of the stream, by its name.",
          properties: structuredClone(events), // the generator resolves what it finds beside schemas
          required: Object.keys(events),
        };
      }
    }
  }
  return found;
}

const python = process.env["HOLDFAST_PYTHON"] ?? `${ROOT}.venv/bin/python`;
const text = execFileSync(python, [`${ROOT}scripts/openapi.py`], { encoding: "utf8", cwd: ROOT, maxBuffer: 2 ** 26 });
const document = JSON.parse(text) as OpenAPI3;
document.components ??= {};
document.components.schemas = { ...document.components.schemas, ...eventsOf(document) } as never;
document.info.version = "";
const written =
  HEAD +
  astToString(
    await openapiTS(document, {
      alphabetize: true,
      defaultNonNullable: false,
      emptyObjectsUnknown: true,
    }),
  );
if (process.argv.includes("--check")) {
  if (readFileSync(PLACE, "utf8") !== written) {
    console.error("src/schema.ts is not that of the OpenAPI document: run `npm run generate`");
    process.exit(1);
  }
} else {
  writeFileSync(PLACE, written);
}
