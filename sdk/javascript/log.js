// Lines for the host's log. Capped at 1 KiB a line and 100 lines a call. A line may hold row data: whether it is shown is
// the operator's choice. Only inside a host: Node.js cannot load this file.

import { write } from "keyvector:plugin/log@0.1.0-draft.1";

/** Something failed that the operator should know. */
export const error = (message) => write("error", message);
/** Something is odd, and the plugin goes on. */
export const warn = (message) => write("warn", message);
/** Something worth a line at start. */
export const info = (message) => write("info", message);
/** For whoever debugs the plugin. */
export const debug = (message) => write("debug", message);
