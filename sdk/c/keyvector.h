// Write keyvector-host table plugins in C. README.md beside this file has the manual.
//
// A plugin defines `keyvector_table`, and a document function that reads cells, writes the text, and adds metadata. The
// first thing that goes wrong for a row (a cell that is no value of its type, `kv_refuse`) sets the row aside with its
// reason, whatever comes after: there is nothing to check after each call.

#ifndef KEYVECTOR_H
#define KEYVECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// UTF-8, not ended by a zero byte. Null and absent cells have `data == NULL`; an empty text has not.
typedef struct {
  const char *data;
  size_t length;
} kv_text;

typedef struct {
  bool is_null;
  int64_t value;
} kv_integer;

typedef struct {
  bool is_null;
  double value;
} kv_number;

// What a column's cells are read as, and so which types it may have.
typedef enum {
  KV_TEXT,       // text, varchar or ascii
  KV_INTEGER,    // tinyint, smallint, int, bigint or counter
  KV_NUMBER,     // these, float or double
  KV_BOOLEAN,    // boolean
  KV_TIMESTAMP,  // timestamp: milliseconds since 1970
  KV_UUID,       // uuid or timeuuid: lower-case text with hyphens
  KV_BLOB,       // blob
  KV_TEXT_LIST,  // list or set of text or ascii
} kv_kind;

typedef struct {
  const char *name;
  kv_kind kind;
} kv_column;

typedef enum { KV_META_TEXT, KV_META_NUMBER, KV_META_BOOLEAN, KV_META_TEXT_LIST, KV_META_NUMBER_LIST } kv_metadata_type;

typedef struct {
  const char *name;
  kv_metadata_type type;
  bool show_only;  // not filterable: it does not count against the index's small room for filterable metadata
} kv_key;

// A configuration key, and the variable that it sets: what the variable holds at first is the default.
typedef struct {
  const char *name;
  enum { KV_SET_TEXT, KV_SET_NUMBER, KV_SET_BOOLEAN } type;
  void *variable;  // kv_text *, double *, bool *
} kv_setting;

typedef struct kv_row kv_row;
typedef struct kv_document kv_document;

typedef struct {
  const kv_column *reads;  // the columns that `document` reads; the least is best
  size_t reads_count;
  const kv_key *metadata;  // all keys that a document may have
  size_t metadata_count;
  const kv_setting *settings;
  size_t settings_count;
  // Makes the row's document. Returns false if the row is filtered out. It depends on the row and on the settings, on
  // nothing else.
  bool (*document)(kv_row *row, kv_document *document);
} kv_table;

// The plugin.
extern const kv_table keyvector_table;

#define KV_COUNT(array) (sizeof(array) / sizeof((array)[0]))

// --- reading cells. `column` is the column's place in `reads`. What was read lives until the batch ends.

kv_text kv_get_text(kv_row *row, size_t column);  // KV_TEXT, KV_UUID, KV_BLOB
kv_integer kv_get_integer(kv_row *row, size_t column);  // KV_INTEGER, KV_TIMESTAMP
kv_number kv_get_number(kv_row *row, size_t column);
kv_integer kv_get_boolean(kv_row *row, size_t column);  // 0 or 1

// A list's texts, one after the other: `for (kv_text tag; kv_next(&tags, &tag);)`. Null and empty lists have none.
typedef struct {
  const uint8_t *at;
  size_t left;
} kv_list;
kv_list kv_get_list(kv_row *row, size_t column);
bool kv_next(kv_list *list, kv_text *text);

// Sets the row aside: it becomes a dead letter, and its neighbours go on. `printf`'s conversions.
void kv_refuse(kv_row *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- writing the document

void kv_put(kv_document *document, const char *text);
void kv_put_text(kv_document *document, kv_text text);
void kv_put_integer(kv_document *document, int64_t value);

// Null values are left out. A number that is not finite, and a whole number beyond 2^53, refuses the row.
void kv_meta_text(kv_document *document, const char *name, kv_text value);
void kv_meta_integer(kv_document *document, const char *name, kv_integer value);
void kv_meta_number(kv_document *document, const char *name, kv_number value);
void kv_meta_boolean(kv_document *document, const char *name, kv_integer value);
// Adds to a list, whose items are given one after the other.
void kv_meta_add_text(kv_document *document, const char *name, kv_text value);
void kv_meta_add_number(kv_document *document, const char *name, double value);

// --- and

// The text without white space at its ends: what counts as blank is the same in every plugin language.
kv_text kv_trim(kv_text text);

// A line for the host's log. It may hold row data: whether it is shown is the operator's choice.
typedef enum { KV_ERROR, KV_WARN, KV_INFO, KV_DEBUG } kv_level;
void kv_log(kv_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
