// Reads a column of every kind, and writes what it read.

#include "keyvector.h"

enum { TEXT, INTEGER, NUMBER, BOOLEAN, TIMESTAMP, UUID, BLOB, LIST };

static const kv_column reads[] = {
    [TEXT] = {"text", KV_TEXT},           [INTEGER] = {"integer", KV_INTEGER},       [NUMBER] = {"number", KV_NUMBER},
    [BOOLEAN] = {"boolean", KV_BOOLEAN},  [TIMESTAMP] = {"timestamp", KV_TIMESTAMP}, [UUID] = {"uuid", KV_UUID},
    [BLOB] = {"blob", KV_BLOB},           [LIST] = {"list", KV_TEXT_LIST},
};

static const kv_key metadata[] = {
    {"integer", KV_META_NUMBER, false}, {"number", KV_META_NUMBER, false},       {"boolean", KV_META_BOOLEAN, false},
    {"list", KV_META_TEXT_LIST, false}, {"numbers", KV_META_NUMBER_LIST, false},
};

static kv_text greeting = {"hello", 5};
static double weight = 0.5;
static bool loud = false;

static const kv_setting settings[] = {
    {"greeting", KV_SET_TEXT, &greeting}, {"weight", KV_SET_NUMBER, &weight}, {"loud", KV_SET_BOOLEAN, &loud}};

static bool cells(kv_row *row, kv_document *document) {
  kv_put_text(document, greeting);
  kv_put(document, loud ? "!" : ".");
  kv_text texts[] = {kv_get_text(row, TEXT), kv_get_text(row, UUID), kv_get_text(row, BLOB)};
  for (size_t index = 0; index < KV_COUNT(texts); index++) {
    if (texts[index].data == NULL) continue;
    kv_put(document, " ");
    kv_put_text(document, texts[index]);
  }
  kv_integer timestamp = kv_get_integer(row, TIMESTAMP);
  if (!timestamp.is_null) {
    kv_put(document, " ");
    kv_put_integer(document, timestamp.value);
  }
  kv_number number = kv_get_number(row, NUMBER);
  kv_meta_integer(document, "integer", kv_get_integer(row, INTEGER));
  kv_meta_number(document, "number", number);
  kv_meta_boolean(document, "boolean", kv_get_boolean(row, BOOLEAN));
  kv_list list = kv_get_list(row, LIST);
  for (kv_text item; kv_next(&list, &item);) kv_meta_add_text(document, "list", item);
  if (!number.is_null) {
    kv_meta_add_number(document, "numbers", number.value);
    kv_meta_add_number(document, "numbers", weight);
  }
  return true;
}

const kv_table keyvector_table = {
    .reads = reads,
    .reads_count = KV_COUNT(reads),
    .metadata = metadata,
    .metadata_count = KV_COUNT(metadata),
    .settings = settings,
    .settings_count = KV_COUNT(settings),
    .document = cells,
};
