// As `light` of tests/guests/cost.

#include "keyvector.h"

enum { TITLE, YEAR, GENRE };

static const kv_column reads[] = {
    [TITLE] = {"title", KV_TEXT},
    [YEAR] = {"year", KV_INTEGER},
    [GENRE] = {"genre", KV_TEXT},
};

static const kv_key metadata[] = {
    {"year", KV_META_NUMBER, false},
    {"genre", KV_META_TEXT, false},
};

static bool light(kv_row *row, kv_document *document) {
  kv_integer year = kv_get_integer(row, YEAR);
  kv_put_text(document, kv_get_text(row, TITLE));
  kv_put(document, " (");
  kv_put_integer(document, year.value);
  kv_put(document, ")");
  kv_meta_integer(document, "year", year);
  kv_meta_text(document, "genre", kv_get_text(row, GENRE));
  return true;
}

const kv_table keyvector_table = {
    .reads = reads,
    .reads_count = KV_COUNT(reads),
    .metadata = metadata,
    .metadata_count = KV_COUNT(metadata),
    .document = light,
};
