use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::status::Status;

/// Returns the JSON schema (draft 2020-12) of `/status`.
#[must_use]
pub fn schema() -> Schema {
    schema_of::<Status>()
}

#[must_use]
pub fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
