// The plugin's side of the WebAssembly boundary. `table_plugin.h` is what wit-bindgen makes of the WIT files.

#include "keyvector.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"
#include "table_plugin.h"

enum { REASON_BYTES_MAX = 1024 };

// --- memory. Running out of it ends the instance: the host asks again with fewer rows.

typedef struct {
  uint8_t *data;
  size_t length;
  size_t capacity;
} buffer;

static void *grown(void *old, size_t bytes) {
  void *memory = realloc(old, bytes == 0 ? 1 : bytes);
  if (memory == NULL) __builtin_trap();
  return memory;
}

static void append(buffer *out, const void *data, size_t length) {
  if (length > out->capacity - out->length) {
    out->capacity = (out->length + length) * 2;
    out->data = grown(out->data, out->capacity);
  }
  if (length > 0) memcpy(out->data + out->length, data, length);
  out->length += length;
}

static void append_string(buffer *out, const char *text) { append(out, text, strlen(text)); }

// --- rows

typedef struct {
  const uint8_t *data;  // NULL: null
  size_t length;
} cell;

struct kv_row {
  const cell *cells;
  bool is_refused;
  char reason[REASON_BYTES_MAX];
};

struct kv_document {
  kv_row *row;
  buffer *text;
  buffer *json;
  size_t json_start;
  const char *open_list;  // the key of the list that is being added to
};

// The columns' types in this table.
static char **column_types;

// Texts that no cell holds as they are. They live until the batch ends.
typedef struct made_text {
  struct made_text *next;
  char text[37];
} made_text;
static made_text *made_texts;

// The first reason counts.
static void refuse_with(kv_row *row, const char *format, va_list arguments) {
  if (row->is_refused) return;
  row->is_refused = true;
  vsnprintf(row->reason, sizeof row->reason, format, arguments);
}

void kv_refuse(kv_row *row, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  refuse_with(row, format, arguments);
  va_end(arguments);
}

static void refuse_cell(kv_row *row, size_t column, const char *format, ...) {
  char cause[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(cause, sizeof cause, format, arguments);
  va_end(arguments);
  kv_refuse(row, "column `%s`: %s", keyvector_table.reads[column].name, cause);
}

// The length of the longest beginning that is UTF-8.
static size_t utf8_until(const uint8_t *data, size_t length) {
  size_t at = 0;
  while (at < length) {
    uint8_t first = data[at];
    // The second byte's bounds keep out what is too long, surrogates, and what is beyond Unicode.
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9;
    if (more > length - at - 1) return at;
    if (more > 0 && (data[at + 1] < low || data[at + 1] > high)) return at;
    for (size_t index = 2; index <= more; index++) {
      if ((data[at + index] & 0xc0) != 0x80) return at;
    }
    at += more + 1;
  }
  return at;
}

static bool is_utf8(kv_row *row, size_t column, const uint8_t *data, size_t length) {
  size_t until = utf8_until(data, length);
  if (until < length) refuse_cell(row, column, "its text is not UTF-8 from byte %zu", until);
  return until == length;
}

static int64_t big_endian(const uint8_t *data, size_t length) {
  uint64_t value = data[0] & 0x80 ? UINT64_MAX : 0;  // the sign
  for (size_t index = 0; index < length; index++) value = value << 8 | data[index];
  return (int64_t)value;
}

// The cell, if it has as many bytes as its type. One of no bytes reads as null does.
static const uint8_t *fixed(kv_row *row, size_t column, size_t size) {
  const cell *given = &row->cells[column];
  if (given->data == NULL || given->length == 0) return NULL;
  if (given->length == size) return given->data;
  refuse_cell(row, column, "%zu bytes are no %s", given->length, column_types[column]);
  return NULL;
}

static size_t integer_size(const char *type) {
  static const struct {
    const char *type;
    size_t size;
  } sizes[] = {{"tinyint", 1}, {"smallint", 2}, {"int", 4}, {"bigint", 8}, {"counter", 8}, {"timestamp", 8}};
  for (size_t index = 0; index < KV_COUNT(sizes); index++) {
    if (strcmp(type, sizes[index].type) == 0) return sizes[index].size;
  }
  return 0;
}

kv_integer kv_get_integer(kv_row *row, size_t column) {
  size_t size = integer_size(column_types[column]);
  const uint8_t *data = fixed(row, column, size);
  if (data == NULL) return (kv_integer){.is_null = true};
  return (kv_integer){.value = big_endian(data, size)};
}

kv_number kv_get_number(kv_row *row, size_t column) {
  bool is_float = strcmp(column_types[column], "float") == 0;
  if (!is_float && strcmp(column_types[column], "double") != 0) {
    kv_integer integer = kv_get_integer(row, column);
    return (kv_number){integer.is_null, (double)integer.value};
  }
  size_t size = is_float ? 4 : 8;
  const uint8_t *data = fixed(row, column, size);
  if (data == NULL) return (kv_number){.is_null = true};
  int64_t bits = big_endian(data, size);
  float single;
  double number;
  memcpy(&single, &bits, sizeof single);  // WebAssembly is little-endian: the low half comes first
  memcpy(&number, &bits, sizeof number);
  return (kv_number){.value = is_float ? single : number};
}

kv_integer kv_get_boolean(kv_row *row, size_t column) {
  const uint8_t *data = fixed(row, column, 1);
  if (data == NULL) return (kv_integer){.is_null = true};
  return (kv_integer){.value = data[0] != 0};
}

static kv_text uuid_text(const uint8_t *data) {
  made_text *made = grown(NULL, sizeof *made);
  made->next = made_texts;
  made_texts = made;
  char *end = made->text;
  for (size_t index = 0; index < 16; index++) {
    bool hyphen = index == 4 || index == 6 || index == 8 || index == 10;
    end += sprintf(end, hyphen ? "-%02x" : "%02x", data[index]);
  }
  return (kv_text){made->text, (size_t)(end - made->text)};
}

kv_text kv_get_text(kv_row *row, size_t column) {
  const cell *given = &row->cells[column];
  kv_kind kind = keyvector_table.reads[column].kind;
  if (given->data == NULL) return (kv_text){0};
  if (kind == KV_UUID) {
    const uint8_t *data = fixed(row, column, 16);
    return data == NULL ? (kv_text){0} : uuid_text(data);
  }
  if (kind == KV_TEXT && !is_utf8(row, column, given->data, given->length)) return (kv_text){0};
  return (kv_text){(const char *)given->data, given->length};
}

// Walks over the whole list once, so that a broken one refuses the row before any of it is used.
kv_list kv_get_list(kv_row *row, size_t column) {
  const cell *given = &row->cells[column];
  const kv_list none = {0};
  if (given->data == NULL || given->length == 0) return none;
  const char *type = column_types[column];
  int64_t count = given->length < 4 ? -1 : big_endian(given->data, 4);
  if (count < 0) {
    const char *fault = given->length < 4 ? "ends too early" : "has a negative count";
    refuse_cell(row, column, "a %s %s", type, fault);
    return none;
  }
  size_t at = 4;
  for (int64_t index = 0; index < count; index++) {
    int64_t length = given->length - at < 4 ? INT64_MAX : big_endian(given->data + at, 4);
    if (length > (int64_t)(given->length - at) - 4) {
      const char *element = strchr(type, '<') + 1;
      refuse_cell(row, column, "a %.*s ends too early", (int)strlen(element) - 1, element);
      return none;
    }
    at += 4;
    if (length < 0) continue;
    if (!is_utf8(row, column, given->data + at, (size_t)length)) return none;
    at += (size_t)length;
  }
  if (at < given->length) {
    refuse_cell(row, column, "bytes are left over after the last element");
    return none;
  }
  return (kv_list){given->data + 4, (size_t)count};
}

bool kv_next(kv_list *list, kv_text *text) {
  while (list->left > 0) {
    int64_t length = big_endian(list->at, 4);
    list->at += 4;
    list->left -= 1;
    if (length < 0) continue;  // a null element
    *text = (kv_text){(const char *)list->at, (size_t)length};
    list->at += length;
    return true;
  }
  return false;
}

// --- documents

void kv_put(kv_document *document, const char *text) { append_string(document->text, text); }

void kv_put_text(kv_document *document, kv_text text) { append(document->text, text.data, text.length); }

void kv_put_integer(kv_document *document, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", (long long)value);
  kv_put(document, digits);
}

static void append_json_text(buffer *out, kv_text text) {
  append_string(out, "\"");
  size_t written = 0;
  for (size_t at = 0; at < text.length; at++) {
    unsigned char byte = (unsigned char)text.data[at];
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    append(out, text.data + written, at - written);
    char escaped[8];
    snprintf(escaped, sizeof escaped, "\\u%04x", byte);
    append_string(out, escaped);
    written = at + 1;
  }
  append(out, text.data + written, text.length - written);
  append_string(out, "\"");
}

static void close_list(kv_document *document) {
  if (document->open_list != NULL) append_string(document->json, "]");
  document->open_list = NULL;
}

// Writes up to where the key's value begins.
static void begin_key(kv_document *document, const char *name) {
  close_list(document);
  append_string(document->json, document->json->length == document->json_start ? "{" : ",");
  append_json_text(document->json, (kv_text){name, strlen(name)});
  append_string(document->json, ":");
}

static void begin_item(kv_document *document, const char *name) {
  if (document->open_list != NULL && strcmp(document->open_list, name) == 0) {
    append_string(document->json, ",");
    return;
  }
  begin_key(document, name);
  append_string(document->json, "[");
  document->open_list = name;
}

static void append_number(kv_document *document, const char *name, double value) {
  if (!isfinite(value)) {
    kv_refuse(document->row, "metadata `%s`: %g is not a finite number", name, value);
    return;
  }
  char digits[32];
  snprintf(digits, sizeof digits, "%.17g", value);
  append_string(document->json, digits);
}

void kv_meta_text(kv_document *document, const char *name, kv_text value) {
  if (value.data == NULL) return;
  begin_key(document, name);
  append_json_text(document->json, value);
}

void kv_meta_integer(kv_document *document, const char *name, kv_integer value) {
  const int64_t max = (int64_t)1 << 53;
  if (value.is_null) return;
  if (value.value > max || value.value < -max) {
    kv_refuse(document->row, "metadata `%s`: %lld is beyond 2^53; declare the key as text and give it as text", name,
              (long long)value.value);
  }
  begin_key(document, name);
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", (long long)value.value);
  append_string(document->json, digits);
}

void kv_meta_number(kv_document *document, const char *name, kv_number value) {
  if (value.is_null) return;
  begin_key(document, name);
  append_number(document, name, value.value);
}

void kv_meta_boolean(kv_document *document, const char *name, kv_integer value) {
  if (value.is_null) return;
  begin_key(document, name);
  append_string(document->json, value.value ? "true" : "false");
}

void kv_meta_add_text(kv_document *document, const char *name, kv_text value) {
  begin_item(document, name);
  append_json_text(document->json, value);
}

void kv_meta_add_number(kv_document *document, const char *name, double value) {
  begin_item(document, name);
  append_number(document, name, value);
}

// --- text and log

// Whether the character (one to three bytes) is what Unicode calls white space.
static bool is_white_space(const uint8_t *bytes, size_t length) {
  if (length == 1) return bytes[0] == ' ' || (bytes[0] >= '\t' && bytes[0] <= '\r');
  if (length == 2) return bytes[0] == 0xc2 && (bytes[1] == 0x85 || bytes[1] == 0xa0);
  if (length != 3) return false;
  uint32_t code = (uint32_t)(bytes[0] & 0x0f) << 12 | (uint32_t)(bytes[1] & 0x3f) << 6 | (bytes[2] & 0x3f);
  return code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

static bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

kv_text kv_trim(kv_text text) {
  const uint8_t *start = (const uint8_t *)text.data;
  const uint8_t *end = start + text.length;
  while (start < end) {
    size_t length = 1;
    while (start + length < end && is_continuation(start[length])) length++;
    if (!is_white_space(start, length)) break;
    start += length;
  }
  while (start < end) {
    size_t length = 1;
    while (start < end - length && is_continuation(end[-(ptrdiff_t)length])) length++;
    if (!is_white_space(end - length, length)) break;
    end -= length;
  }
  return (kv_text){(const char *)start, (size_t)(end - start)};
}

void kv_log(kv_level level, const char *format, ...) {
  char message[REASON_BYTES_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  // The host takes UTF-8, and a line that was cut may end within a character.
  size_t length = utf8_until((const uint8_t *)message, strlen(message));
  table_plugin_string_t line = {(uint8_t *)message, length};
  keyvector_plugin_log_write((keyvector_plugin_log_level_t)level, &line);
}

// --- what the host calls

static const struct {
  const char *allowed;
  const char *types;  // with a space around each
} kinds[] = {
    [KV_TEXT] = {"text, varchar or ascii", " text ascii "},
    [KV_INTEGER] = {"tinyint, smallint, int, bigint or counter", " tinyint smallint int bigint counter "},
    [KV_NUMBER] = {"tinyint, smallint, int, bigint, counter, float or double",
                   " tinyint smallint int bigint counter float double "},
    [KV_BOOLEAN] = {"boolean", " boolean "},
    [KV_TIMESTAMP] = {"timestamp", " timestamp "},
    [KV_UUID] = {"uuid or timeuuid", " uuid timeuuid "},
    [KV_BLOB] = {"blob", " blob "},
    [KV_TEXT_LIST] = {"a list or set of texts", " list<text> set<text> list<ascii> set<ascii> "},
};

static bool is_read_as(kv_kind kind, const char *type) {
  char wanted[32];
  if (strlen(type) + 3 > sizeof wanted || strchr(type, ' ') != NULL) return false;
  snprintf(wanted, sizeof wanted, " %s ", type);
  return strstr(kinds[kind].types, wanted) != NULL;
}

static bool read_config(table_plugin_string_t *config, char *error) {
  bool is_read = kv_read_settings((const char *)config->ptr, config->len, error, REASON_BYTES_MAX);
  table_plugin_string_free(config);
  return is_read;
}

// The host takes UTF-8, and a reason that was cut may end within a character.
static void refuse_setup(table_plugin_string_t *error, const char *reason) {
  table_plugin_string_dup_n(error, reason, utf8_until((const uint8_t *)reason, strlen(reason)));
}

bool exports_keyvector_plugin_table_describe(table_plugin_string_t *config,
                                             exports_keyvector_plugin_table_table_info_t *info,
                                             table_plugin_string_t *error) {
  const kv_table *table = &keyvector_table;
  char reason[REASON_BYTES_MAX];
  if (!read_config(config, reason)) {
    refuse_setup(error, reason);
    return false;
  }
  info->reads.len = table->reads_count;
  info->reads.ptr = grown(NULL, table->reads_count * sizeof *info->reads.ptr);
  for (size_t index = 0; index < table->reads_count; index++) {
    table_plugin_string_dup(&info->reads.ptr[index], table->reads[index].name);
  }
  info->metadata.len = table->metadata_count;
  info->metadata.ptr = grown(NULL, table->metadata_count * sizeof *info->metadata.ptr);
  for (size_t index = 0; index < table->metadata_count; index++) {
    const kv_key *key = &table->metadata[index];
    table_plugin_string_dup(&info->metadata.ptr[index].name, key->name);
    info->metadata.ptr[index].value_type = (exports_keyvector_plugin_table_metadata_type_t)key->type;
    info->metadata.ptr[index].filterable = !key->show_only;
  }
  return true;
}

// Takes the columns' types, or says why they do not fit.
static bool take_columns(const exports_keyvector_plugin_table_list_column_t *columns, char *error) {
  const kv_table *table = &keyvector_table;
  bool is_same = columns->len == table->reads_count;
  for (size_t index = 0; is_same && index < columns->len; index++) {
    const table_plugin_string_t *name = &columns->ptr[index].name;
    const char *wanted = table->reads[index].name;
    is_same = strlen(wanted) == name->len && memcmp(wanted, name->ptr, name->len) == 0;
  }
  if (!is_same) {
    snprintf(error, REASON_BYTES_MAX, "the table's columns are not those that the plugin reads");
    return false;
  }
  column_types = grown(NULL, columns->len * sizeof *column_types);
  for (size_t index = 0; index < columns->len; index++) {
    const table_plugin_string_t *type = &columns->ptr[index].cql_type;
    kv_kind kind = table->reads[index].kind;
    column_types[index] = grown(NULL, type->len + 1);
    memcpy(column_types[index], type->ptr, type->len);
    column_types[index][type->len] = '\0';
    if (!is_read_as(kind, column_types[index])) {
      snprintf(error, REASON_BYTES_MAX, "column `%s` is of type %s; %s is needed", table->reads[index].name,
               column_types[index], kinds[kind].allowed);
      return false;
    }
  }
  return true;
}

bool exports_keyvector_plugin_table_open(table_plugin_string_t *config,
                                         exports_keyvector_plugin_table_list_column_t *columns,
                                         table_plugin_string_t *error) {
  char reason[REASON_BYTES_MAX];
  bool is_open = read_config(config, reason) && take_columns(columns, reason);
  exports_keyvector_plugin_table_list_column_free(columns);
  if (!is_open) refuse_setup(error, reason);
  return is_open;
}

// Cuts the next row's cells off the batch: an i32 big-endian length (-1 for null), then the bytes.
static const uint8_t *split(const uint8_t *at, const uint8_t *end, cell *row) {
  for (size_t column = 0; column < keyvector_table.reads_count; column++) {
    if (end - at < 4) __builtin_trap();  // the host broke its side of the contract
    int64_t length = big_endian(at, 4);
    at += 4;
    if (length > end - at) __builtin_trap();
    row[column] = length < 0 ? (cell){0} : (cell){at, (size_t)length};
    if (length > 0) at += length;
  }
  return at;
}

// Writes one row's text and metadata, and says what became of it.
static uint8_t render_row(kv_row *row, buffer *text, buffer *json) {
  size_t text_start = text->length;
  kv_document document = {.row = row, .text = text, .json = json, .json_start = json->length};
  row->is_refused = false;
  bool is_document = keyvector_table.document(row, &document);
  close_list(&document);
  if (json->length > document.json_start) append_string(json, "}");
  if (is_document && !row->is_refused) return EXPORTS_KEYVECTOR_PLUGIN_TABLE_ROW_STATE_DOCUMENT;
  text->length = text_start;
  json->length = document.json_start;
  if (!row->is_refused) return EXPORTS_KEYVECTOR_PLUGIN_TABLE_ROW_STATE_SKIPPED;
  append_string(text, row->reason);
  return EXPORTS_KEYVECTOR_PLUGIN_TABLE_ROW_STATE_FAILED;
}

static keyvector_plugin_types_packed_t packed(buffer *data, uint32_t *ends, size_t rows) {
  return (keyvector_plugin_types_packed_t){{data->data, data->length}, {ends, rows}};
}

void exports_keyvector_plugin_table_render(uint32_t rows, table_plugin_list_u8_t *cells,
                                           exports_keyvector_plugin_table_documents_t *documents) {
  buffer text = {0}, json = {0};
  uint8_t *states = grown(NULL, rows);
  uint32_t *text_ends = grown(NULL, rows * sizeof *text_ends);
  uint32_t *json_ends = grown(NULL, rows * sizeof *json_ends);
  cell *row_cells = grown(NULL, keyvector_table.reads_count * sizeof *row_cells);
  kv_row row = {.cells = row_cells};
  const uint8_t *at = cells->ptr, *end = cells->ptr + cells->len;
  for (uint32_t index = 0; index < rows; index++) {
    at = split(at, end, row_cells);
    states[index] = render_row(&row, &text, &json);
    text_ends[index] = (uint32_t)text.length;
    json_ends[index] = (uint32_t)json.length;
  }
  free(row_cells);
  while (made_texts != NULL) {
    made_text *next = made_texts->next;
    free(made_texts);
    made_texts = next;
  }
  table_plugin_list_u8_free(cells);
  // What is empty is not freed after the call: the generated code goes by the length.
  if (text.length == 0) free(text.data);
  if (json.length == 0) free(json.data);
  *documents = (exports_keyvector_plugin_table_documents_t){
      .states = {states, rows},
      .texts = packed(&text, text_ends, rows),
      .metadata = packed(&json, json_ends, rows),
  };
}
