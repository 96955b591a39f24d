//! JSON as people write it into files of configuration, ours and other programs'.

use jsonc_parser::ParseOptions;

/// Comments and trailing commas, and nothing else that JSON has not.
pub(crate) const JSON_OF_PEOPLE: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};
