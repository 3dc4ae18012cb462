//! Two values of a type, taken apart and compared field by field.

/// Compares all fields of two values of one struct, and notes those that differ: `live` or `restart`, by the name that
/// follows where it is another one than the field's; `other` fields are compared elsewhere.
macro_rules! differences {
    ($changes:expr, $place:expr, $old:expr, $new:expr,
     $type:ident { $($field:ident: $how:ident $($name:literal)?),* $(,)? }) => {{
        let $type { $($field),* } = $old; // all there are
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
            let (before, after) =
                ($crate::changes::told::Told::told($field), $crate::changes::told::Told::told(&$new));
            $changes.$how(format!("{}{}", $place, $name), before, after);
        }
    };
}

pub(super) use {difference, differences};
