//! The JSON Schema of `/status`, from the types that are written there: it names every key, with what it says and what it
//! may be.

use schemars::Schema;
use schemars::generate::SchemaSettings;

use super::status::Status;

/// The schema (draft 2020-12).
#[must_use]
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Status>()
}
