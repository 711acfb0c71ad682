// Part of the SDK, not of its interface.

#ifndef KEYVECTOR_SETTINGS_H
#define KEYVECTOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

// Reads the configuration, a JSON object, into the plugin's settings. Returns false with words for the operator where it
// is none, or holds a key that no setting has.
bool kv_read_settings(const char *json, size_t length, char *error, size_t error_size);

#endif
