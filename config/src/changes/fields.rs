/// Compares all fields of two values of a struct. Changed `live` fields take effect at once, `restart` fields need a restart,
/// and `other` fields are compared elsewhere. A string after these words replaces the field's name in the report.
macro_rules! differences {
    ($changes:expr, $place:expr, $old:expr, $new:expr,
     $type:ident { $($field:ident: $how:ident $($name:literal)?),* $(,)? }) => {{
        let $type { $($field),* } = $old; // all fields of the type
        $($crate::changes::fields::difference!($how, $changes, $place, $field, $new.$field, $($name)?);)*
    }};
}

macro_rules! difference {
    (other, $changes:expr, $place:expr, $field:ident, $new:expr,) => {
        let _ = $field;
    };
    ($how:ident, $changes:expr, $place:expr, $field:ident, $new:expr,) => {
        $crate::changes::fields::difference!($how, $changes, $place, $field, $new, (stringify!($field)));
    };
    ($how:ident, $changes:expr, $place:expr, $field:ident, $new:expr, $name:tt) => {
        if *$field != $new {
            let (before, after) = (
                $crate::changes::notation::Notation::notation($field),
                $crate::changes::notation::Notation::notation(&$new),
            );
            $changes.$how(format!("{}{}", $place, $name), before, after);
        }
    };
}

pub(super) use {difference, differences};
