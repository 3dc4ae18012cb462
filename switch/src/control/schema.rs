use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::status::Status;

#[must_use]
pub fn schema() -> Schema {
    schema_of::<Status>()
}

#[must_use]
pub fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(describe_json));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Replaces Rust's notation by JSON's in a description, which is a field's doc comment.
fn describe_json(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ").replace("`None`", "`null`").replace("[`", "`").replace("`]", "`");
    }
}
