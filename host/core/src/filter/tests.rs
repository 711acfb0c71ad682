use proptest::prelude::*;
use serde_json::json;

use super::*;

fn metadata(value: &Value) -> Metadata {
    serde_json::from_value(value.clone()).unwrap()
}

fn film() -> Metadata {
    metadata(
        &json!({"genre": "western", "year": 1990, "listed": true, "tags": ["dust", "train"], "marks": [7, 8.5]}),
    )
}

fn passes(filter: Value) -> bool {
    Filter::parse(&filter, &[]).unwrap().matches(&film())
}

fn refused(filter: Value) -> String {
    Filter::parse(&filter, &["_keyvector".to_owned()]).unwrap_err().to_string()
}

#[test]
fn equality_knows_types_and_list_elements() {
    assert!(passes(json!({"genre": "western"})));
    assert!(passes(json!({"genre": {"$eq": "western"}})));
    assert!(passes(json!({"year": 1990.0})));
    assert!(passes(json!({"listed": true})));
    assert!(passes(json!({"tags": "train"})));
    assert!(passes(json!({"marks": {"$eq": 8.5}})));
    assert!(!passes(json!({"year": "1990"})), "no conversion between types");
    assert!(!passes(json!({"listed": "true"})));
    assert!(!passes(json!({"listed": 1})));
    assert!(!passes(json!({"tags": "tra"})));
    assert!(!passes(json!({"missing": "x"})));
    assert!(!passes(json!({"genre": {"$ne": "western"}})));
    assert!(!passes(json!({"tags": {"$ne": "train"}})));
    assert!(passes(json!({"tags": {"$ne": "sea"}})));
}

#[test]
fn a_missing_key_is_not_equal_to_anything() {
    assert!(passes(json!({"missing": {"$ne": "x"}})));
    assert!(passes(json!({"missing": {"$nin": ["x", 1]}})));
    assert!(!passes(json!({"missing": {"$in": ["x", 1]}})));
    assert!(!passes(json!({"missing": {"$lt": 1e300}})));
    assert!(passes(json!({"missing": {"$exists": false}})));
    assert!(!passes(json!({"missing": {"$exists": true}})));
    assert!(passes(json!({"tags": {"$exists": true}})));
}

#[test]
fn comparisons_are_of_numbers_only() {
    assert!(passes(json!({"year": {"$gte": 1990}})));
    assert!(!passes(json!({"year": {"$gt": 1990}})));
    assert!(passes(json!({"year": {"$lte": 1990}})));
    assert!(!passes(json!({"year": {"$lt": 1990}})));
    assert!(passes(json!({"year": {"$gt": 1980, "$lt": 2000}})), "several operators must all hold");
    assert!(!passes(json!({"year": {"$gt": 1980, "$lt": 1985}})));
    assert!(!passes(json!({"genre": {"$gt": 0}})));
    assert!(!passes(json!({"marks": {"$gt": 0}})), "a list is no number");
}

#[test]
fn membership_and_logic() {
    assert!(passes(json!({"genre": {"$in": ["noir", "western"]}})));
    assert!(passes(json!({"tags": {"$in": ["sea", "dust"]}})));
    assert!(passes(json!({"year": {"$in": ["1990", 1990]}})));
    assert!(!passes(json!({"genre": {"$nin": ["noir", "western"]}})));
    assert!(!passes(json!({"tags": {"$nin": ["dust"]}})));
    assert!(passes(json!({"$and": [{"genre": "western"}, {"year": {"$lt": 2000}}]})));
    assert!(!passes(json!({"$and": [{"genre": "western"}, {"year": 2000}]})));
    assert!(passes(json!({"$or": [{"genre": "noir"}, {"year": 1990}]})));
    assert!(!passes(json!({"$or": [{"genre": "noir"}, {"year": 1991}]})));
    assert!(!passes(json!({"genre": "western", "year": 1991})), "several keys must all hold");
    assert!(passes(json!({"genre": "western", "$or": [{"year": 1}, {"year": 1990}]})));
}

#[test]
fn refusals_say_where_and_what_to_write() {
    for (filter, expected) in [
        (json!({"year": {"$gtr": 1}}), "filter, at year.$gtr: unknown operator \"$gtr\", did you mean $gt?"),
        (json!({"year": {"gte": 1}}), "filter, at year.gte: unknown operator \"gte\", did you mean $gte?"),
        (json!({"year": {"$GTE": 1}}), "filter, at year.$GTE: unknown operator \"$GTE\", did you mean $gte?"),
        (json!({"$andd": []}), "filter, at $andd: unknown operator \"$andd\", did you mean $and?"),
        (json!({"$eq": 1}), "filter, at $eq: $eq needs a metadata key around it: {\"KEY\": {\"$eq\": …}}"),
        (
            json!({"$and": [{"a": 1}, {"year": {"$gt": "1990"}}]}),
            "filter, at $and[1].year.$gt: needs a number, not a text",
        ),
        (
            json!({"year": {"$or": [1]}}),
            "filter, at year.$or: $or stands around whole filters, not below a metadata key",
        ),
        (json!({"a": {"$eq": [1]}}), "filter, at a.$eq: needs a text, a number or a boolean, not a list"),
        (json!({"a": {"$ne": null}}), "filter, at a.$ne: needs a text, a number or a boolean, not null"),
        (json!({"a": {"$in": []}}), "filter, at a.$in: needs one value at least, the list is empty"),
        (
            json!({"a": {"$in": [1, [2]]}}),
            "filter, at a.$in: needs a text, a number or a boolean, not a list",
        ),
        (json!({"a": {"$nin": "x"}}), "filter, at a.$nin: needs a list of values, not a text"),
        (json!({"a": {"$exists": 1}}), "filter, at a.$exists: needs true or false, not a number"),
        (json!({"a": [1]}), "filter, at a: a list needs an operator: {\"$in\": […]}"),
        (json!({"a": null}), "filter, at a: null is no metadata value: ask {\"$exists\": false}"),
        (json!({"a": {}}), "filter, at a: no operator in the object"),
        (json!({"": 1}), "filter, at \"\": the metadata key is empty"),
        (json!({}), "filter, at the top: an empty object filters nothing: leave the filter out"),
        (json!({"$or": []}), "filter, at $or: needs one filter at least, the list is empty"),
        (json!({"$or": {"a": 1}}), "filter, at $or: needs a list of filters, not an object"),
        (
            json!({"$or": [{"a": 1}, {}]}),
            "filter, at $or[1]: an empty object filters nothing: leave the filter out",
        ),
        (
            json!({"_keyvector": "x"}),
            "filter, at _keyvector: \"_keyvector\" is a non-filterable metadata key of this index",
        ),
        (
            json!({"a": {"$startsWith": "x"}}),
            "filter, at a.$startsWith: is known only to S3 Vectors' ENHANCED indexes, this one is not: use $eq or $in",
        ),
        (
            json!("year > 1990"),
            "filter, at the top: a filter is an object such as {\"year\":{\"$gte\":1990}}, not a text",
        ),
    ] {
        assert_eq!(refused(filter), expected);
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| (1..depth).fold(json!({"a": 1}), |filter, _| json!({"$and": [filter]}));
    assert!(Filter::parse(&nested(FILTER_DEPTH_MAX), &[]).is_ok());
    let error = Filter::parse(&nested(FILTER_DEPTH_MAX + 1), &[]).unwrap_err();
    assert_eq!(error.reason, "filters may nest 16 deep at most");
}

/// The language once more, straight over JSON and without a parsed form.
fn naive(filter: &Value, metadata: &Value) -> bool {
    filter.as_object().unwrap().iter().all(|(name, operand)| match name.as_str() {
        "$and" => operand.as_array().unwrap().iter().all(|filter| naive(filter, metadata)),
        "$or" => operand.as_array().unwrap().iter().any(|filter| naive(filter, metadata)),
        key => match operand.as_object() {
            None => naive_equal(operand, metadata.get(key)),
            Some(operators) => {
                operators.iter().all(|(operator, operand)| naive_test(operator, operand, metadata.get(key)))
            }
        },
    })
}

fn naive_equal(operand: &Value, value: Option<&Value>) -> bool {
    let same = |value: &Value| match (operand.as_f64(), value.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => operand == value,
    };
    match value {
        None => false,
        Some(Value::Array(items)) => items.iter().any(same),
        Some(value) => same(value),
    }
}

fn naive_test(operator: &str, operand: &Value, value: Option<&Value>) -> bool {
    let any = || operand.as_array().unwrap().iter().any(|operand| naive_equal(operand, value));
    let compares = |test: fn(f64, f64) -> bool| {
        value.and_then(Value::as_f64).is_some_and(|value| test(value, operand.as_f64().unwrap()))
    };
    match operator {
        "$eq" => naive_equal(operand, value),
        "$ne" => !naive_equal(operand, value),
        "$gt" => compares(|value, bound| value > bound),
        "$gte" => compares(|value, bound| value >= bound),
        "$lt" => compares(|value, bound| value < bound),
        "$lte" => compares(|value, bound| value <= bound),
        "$in" => any(),
        "$nin" => !any(),
        "$exists" => value.is_some() == operand.as_bool().unwrap(),
        other => unreachable!("{other}"),
    }
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec!["x", "y", "1"]).prop_map(Value::from),
        (0..3i32).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, -0.0]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ]
}

fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn operators() -> impl Strategy<Value = (String, Value)> {
    let name = |name: &str| name.to_owned();
    prop_oneof![
        (prop::sample::select(vec![name("$eq"), name("$ne")]), scalars()),
        (
            prop::sample::select(vec![name("$gt"), name("$gte"), name("$lt"), name("$lte")]),
            (0..3i32).prop_map(Value::from)
        ),
        (
            prop::sample::select(vec![name("$in"), name("$nin")]),
            prop::collection::vec(scalars(), 1..4).prop_map(Value::from)
        ),
        (Just(name("$exists")), any::<bool>().prop_map(Value::from)),
    ]
}

fn object(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(entries.into_iter().collect())
}

fn filters() -> impl Strategy<Value = Value> {
    let test = prop_oneof![
        (keys(), scalars()),
        (
            keys(),
            prop::collection::btree_map(Just(()), operators(), 1..2)
                .prop_map(|one| object(one.into_values()))
        ),
        (keys(), prop::collection::vec(operators(), 1..4).prop_map(object)),
    ];
    let leaf = prop::collection::vec(test, 1..3).prop_map(object);
    leaf.prop_recursive(4, 24, 3, |inner| {
        (
            prop::sample::select(vec!["$and", "$or"]),
            prop::collection::vec(inner, 1..4),
            prop::option::of((keys(), scalars())),
        )
            .prop_map(|(name, filters, beside)| {
                object([(name.to_owned(), Value::from(filters))].into_iter().chain(beside))
            })
    })
}

fn metadata_values() -> impl Strategy<Value = Value> {
    let texts = prop::collection::vec(prop::sample::select(vec!["x", "y", "z"]), 0..3);
    prop_oneof![
        scalars(),
        texts.prop_map(Value::from),
        prop::collection::vec(0..3i32, 1..3).prop_map(Value::from)
    ]
}

/// Any JSON, with the language's words in it more often than chance would have it.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        prop::sample::select(COMPARISONS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(vec!["$and", "$or", "$startsWith", "a", "$", ""]).prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        scalars(),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..4).prop_map(object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agrees_with_a_naive_reading(
        filter in filters(),
        entries in prop::collection::btree_map(keys(), metadata_values(), 0..4),
    ) {
        let value = object(entries);
        let parsed = Filter::parse(&filter, &[]).unwrap();
        prop_assert_eq!(parsed.matches(&metadata(&value)), naive(&filter, &value));
        // Nothing but its keys decides.
        let mut part = metadata(&value);
        part.0.retain(|name, _| parsed.keys().contains(&**name));
        prop_assert_eq!(parsed.matches(&part), naive(&filter, &value));
    }

    #[test]
    fn any_json_is_read_or_refused(filter in any_json()) {
        match Filter::parse(&filter, &["b".to_owned()]) {
            // What is read can be asked.
            Ok(parsed) => {
                let _: bool = parsed.matches(&film());
            }
            Err(error) => prop_assert!(!error.reason.is_empty()),
        }
    }
}
