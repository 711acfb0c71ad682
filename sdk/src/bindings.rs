//! What wit-bindgen makes of `wit/draft`: one module for each role. Nothing here is part of the SDK's interface.
#![allow(unsafe_code, reason = "generated code crosses the component boundary by raw pointers")]
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

pub mod table {
    wit_bindgen::generate!({
        path: "../wit/draft",
        world: "table-plugin",
        pub_export_macro: true,
        export_macro_name: "export_table_world",
        default_bindings_module: "keyvector_sdk::bindings::table",
    });
}

pub mod local_model {
    wit_bindgen::generate!({
        path: "../wit/draft",
        world: "local-model-plugin",
        pub_export_macro: true,
        export_macro_name: "export_local_model_world",
        default_bindings_module: "keyvector_sdk::bindings::local_model",
        with: {
            "keyvector:plugin/types@0.1.0-draft.1": super::table::keyvector::plugin::types,
            "keyvector:plugin/log@0.1.0-draft.1": super::table::keyvector::plugin::log,
        },
    });
}

pub mod remote_model {
    wit_bindgen::generate!({
        path: "../wit/draft",
        world: "remote-model-plugin",
        pub_export_macro: true,
        export_macro_name: "export_remote_model_world",
        default_bindings_module: "keyvector_sdk::bindings::remote_model",
        generate_all,
        with: {
            "keyvector:plugin/types@0.1.0-draft.1": super::table::keyvector::plugin::types,
            "keyvector:plugin/log@0.1.0-draft.1": super::table::keyvector::plugin::log,
        },
    });
}
