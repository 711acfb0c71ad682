// The film table in C: the same plugin as `plugins/movies`, row for row.
//
// The text is `title (year)`, then the plot. Unlisted films are filtered out. A negative year or running time is a mistake
// in the row, and refused. Films with neither title nor plot have a blank text, and so no vector.

#include "keyvector.h"

enum { STUDIO, TITLE, YEAR, GENRE, PLOT, RUNTIME_MIN, TAGS, UNLISTED };

static const kv_column reads[] = {
    [STUDIO] = {"studio", KV_TEXT},
    [TITLE] = {"title", KV_TEXT},
    [YEAR] = {"year", KV_INTEGER},
    [GENRE] = {"genre", KV_TEXT},
    [PLOT] = {"plot", KV_TEXT},
    [RUNTIME_MIN] = {"runtime_min", KV_INTEGER},
    [TAGS] = {"tags", KV_TEXT_LIST},
    [UNLISTED] = {"unlisted", KV_BOOLEAN},
};

static const kv_key metadata[] = {
    {"title", KV_META_TEXT, .show_only = true},
    {"studio", KV_META_TEXT, false},
    {"year", KV_META_NUMBER, false},
    {"genre", KV_META_TEXT, false},
    {"runtime", KV_META_NUMBER, false},
    {"tags", KV_META_TEXT_LIST, false},
};

static kv_integer not_negative(kv_row *row, size_t column) {
  kv_integer number = kv_get_integer(row, column);
  if (number.value < 0) {
    kv_refuse(row, "column `%s` is %lld; it cannot be negative", reads[column].name, (long long)number.value);
  }
  return number;
}

// `title (year)`, a line break, the plot, each where the row has it. With neither title nor plot the text is blank: a year
// alone says nothing to search by.
static void put_text(kv_document *document, kv_text title, kv_integer year, kv_text plot) {
  title = kv_trim(title);
  plot = kv_trim(plot);
  if (title.length == 0 && plot.length == 0) return;
  kv_put_text(document, title);
  if (!year.is_null) {
    kv_put(document, title.length == 0 ? "(" : " (");
    kv_put_integer(document, year.value);
    kv_put(document, ")");
  }
  if (plot.length == 0) return;
  if (title.length > 0 || !year.is_null) kv_put(document, "\n");
  kv_put_text(document, plot);
}

static bool film(kv_row *row, kv_document *document) {
  if (kv_get_boolean(row, UNLISTED).value) return false;
  kv_text title = kv_get_text(row, TITLE);
  kv_integer year = not_negative(row, YEAR);
  kv_text plot = kv_get_text(row, PLOT);
  kv_integer runtime = not_negative(row, RUNTIME_MIN);
  kv_list tags = kv_get_list(row, TAGS);

  put_text(document, title, year, plot);
  kv_meta_text(document, "title", title);
  kv_meta_text(document, "studio", kv_get_text(row, STUDIO));
  kv_meta_integer(document, "year", year);
  kv_meta_text(document, "genre", kv_get_text(row, GENRE));
  kv_meta_integer(document, "runtime", runtime);
  for (kv_text tag; kv_next(&tags, &tag);) kv_meta_add_text(document, "tags", tag);
  return true;
}

const kv_table keyvector_table = {
    .reads = reads,
    .reads_count = KV_COUNT(reads),
    .metadata = metadata,
    .metadata_count = KV_COUNT(metadata),
    .document = film,
};
