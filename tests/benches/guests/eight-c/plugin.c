// As `eight` of tests/guests/cost.

#include <stdio.h>

#include "keyvector.h"

enum { ID, TITLE, YEAR, GENRE, RATING, VOTES, SEEN, PLOT };

static const kv_column reads[] = {
    [ID] = {"id", KV_INTEGER},       [TITLE] = {"title", KV_TEXT},    [YEAR] = {"year", KV_INTEGER},
    [GENRE] = {"genre", KV_TEXT},    [RATING] = {"rating", KV_NUMBER}, [VOTES] = {"votes", KV_INTEGER},
    [SEEN] = {"seen", KV_BOOLEAN},   [PLOT] = {"plot", KV_TEXT},
};

static bool eight(kv_row *row, kv_document *document) {
  char rating[32];
  snprintf(rating, sizeof rating, "%g", kv_get_number(row, RATING).value);
  kv_put_integer(document, kv_get_integer(row, ID).value);
  kv_put(document, ": ");
  kv_put_text(document, kv_get_text(row, TITLE));
  kv_put(document, " (");
  kv_put_integer(document, kv_get_integer(row, YEAR).value);
  kv_put(document, "), ");
  kv_put_text(document, kv_get_text(row, GENRE));
  kv_put(document, ", rated ");
  kv_put(document, rating);
  kv_put(document, " by ");
  kv_put_integer(document, kv_get_integer(row, VOTES).value);
  if (kv_get_boolean(row, SEEN).value) kv_put(document, ", seen");
  kv_put(document, "\n");
  kv_put_text(document, kv_get_text(row, PLOT));
  return true;
}

const kv_table keyvector_table = {
    .reads = reads,
    .reads_count = KV_COUNT(reads),
    .document = eight,
};
