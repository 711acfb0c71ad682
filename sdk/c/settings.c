// The configuration: a flat JSON object of texts, numbers and booleans, in which an unknown key is an error.

#include "settings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keyvector.h"

// What is left of the JSON. It ends with a zero byte, which is no part of any token.
typedef struct {
  const char *at;
} reader;

static char peek(reader *in) {
  while (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r') in->at++;
  return *in->at;
}

static bool eat(reader *in, char wanted) {
  if (peek(in) != wanted) return false;
  in->at++;
  return true;
}

static bool eat_word(reader *in, const char *word) {
  peek(in);
  if (strncmp(in->at, word, strlen(word)) != 0) return false;
  in->at += strlen(word);
  return true;
}

static bool read_hex(const char *digits, uint32_t *code) {
  *code = 0;
  for (int index = 0; index < 4; index++) {
    char digit = digits[index];
    uint32_t value;
    if (digit >= '0' && digit <= '9') value = (uint32_t)(digit - '0');
    else if (digit >= 'a' && digit <= 'f') value = (uint32_t)(digit - 'a' + 10);
    else if (digit >= 'A' && digit <= 'F') value = (uint32_t)(digit - 'A' + 10);
    else return false;
    *code = *code << 4 | value;
  }
  return true;
}

static char *put_utf8(char *out, uint32_t code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xc0 | code >> 6);
    *out++ = (char)(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *out++ = (char)(0xe0 | code >> 12);
    *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    *out++ = (char)(0x80 | (code & 0x3f));
  } else {
    *out++ = (char)(0xf0 | code >> 18);
    *out++ = (char)(0x80 | (code >> 12 & 0x3f));
    *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    *out++ = (char)(0x80 | (code & 0x3f));
  }
  return out;
}

// One character after a backslash. Returns where it was written to, or NULL.
static char *read_escape(reader *in, char *out) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  char name = *in->at;
  if (name == '\0') return NULL;
  in->at++;
  if (name != 'u') {
    const char *found = strchr(names, name);
    if (found == NULL) return NULL;
    *out++ = values[found - names];
    return out;
  }
  uint32_t code, low;
  if (!read_hex(in->at, &code)) return NULL;
  in->at += 4;
  if (code >= 0xd800 && code < 0xe000) {
    bool is_pair = code < 0xdc00 && in->at[0] == '\\' && in->at[1] == 'u' && read_hex(in->at + 2, &low) && low >= 0xdc00 &&
                   low < 0xe000;
    if (!is_pair) return NULL;
    in->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  return put_utf8(out, code);
}

// A text without its escapes. It is kept for as long as the instance lives.
static bool read_text(reader *in, kv_text *text) {
  if (!eat(in, '"')) return false;
  char *data = malloc(strlen(in->at) + 1);
  if (data == NULL) __builtin_trap();
  char *out = data;
  while (*in->at != '"') {
    if ((unsigned char)*in->at < 0x20) return false;  // the end, or a control character
    if (*in->at != '\\') {
      *out++ = *in->at++;
      continue;
    }
    in->at++;
    out = read_escape(in, out);
    if (out == NULL) return false;
  }
  in->at++;
  *text = (kv_text){data, (size_t)(out - data)};
  return true;
}

static bool read_value(reader *in, const kv_setting *setting) {
  char first = peek(in);
  switch (setting->type) {
    case KV_SET_TEXT:
      return read_text(in, setting->variable);
    case KV_SET_BOOLEAN:
      *(bool *)setting->variable = first == 't';
      return eat_word(in, "true") || eat_word(in, "false");
    case KV_SET_NUMBER: {
      if (first != '-' && (first < '0' || first > '9')) return false;
      char *end;
      *(double *)setting->variable = strtod(in->at, &end);
      in->at = end;
      return true;
    }
  }
  return false;
}

static const kv_setting *find(kv_text name) {
  for (size_t index = 0; index < keyvector_table.settings_count; index++) {
    const kv_setting *setting = &keyvector_table.settings[index];
    if (strlen(setting->name) == name.length && memcmp(setting->name, name.data, name.length) == 0) return setting;
  }
  return NULL;
}

static bool read_object(reader *in, char *error, size_t error_size) {
  static const char *const types[] = {[KV_SET_TEXT] = "a text", [KV_SET_NUMBER] = "a number", [KV_SET_BOOLEAN] = "true or false"};
  if (!eat(in, '{')) {
    snprintf(error, error_size, "configuration: a JSON object is needed; `{}` is an empty one");
    return false;
  }
  bool is_first = true;
  while (!eat(in, '}')) {
    kv_text name;
    if ((!is_first && !eat(in, ',')) || !read_text(in, &name) || !eat(in, ':')) {
      snprintf(error, error_size, "configuration: it is no JSON");
      return false;
    }
    is_first = false;
    const kv_setting *setting = find(name);
    if (setting == NULL) {
      snprintf(error, error_size, "configuration: `%.*s` is no key of this plugin", (int)name.length, name.data);
      return false;
    }
    if (!read_value(in, setting)) {
      snprintf(error, error_size, "configuration: `%s` is to be %s", setting->name, types[setting->type]);
      return false;
    }
  }
  return true;
}

bool kv_read_settings(const char *json, size_t length, char *error, size_t error_size) {
  char *ended = malloc(length + 1);
  if (ended == NULL) __builtin_trap();
  memcpy(ended, json, length);
  ended[length] = '\0';
  reader in = {ended};
  bool is_read = read_object(&in, error, error_size);
  if (is_read && peek(&in) != '\0') {
    snprintf(error, error_size, "configuration: text goes on after its end");
    is_read = false;
  }
  free(ended);
  return is_read;
}
