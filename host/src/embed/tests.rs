use std::sync::Mutex;

use super::*;

type Script = dyn Fn(usize, &[&str]) -> Result<Embeddings, ModelFailure> + Send + Sync;

/// A model that answers as a test says, by the number of the call from 0.
struct Scripted {
    info: ModelInfo,
    calls: Mutex<Vec<Vec<String>>>,
    script: Box<Script>,
}

#[async_trait]
impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn embed(&self, texts: &[&str], _: Purpose) -> Result<Embeddings, ModelFailure> {
        let mut calls = self.calls.lock().unwrap();
        let number = calls.len();
        calls.push(texts.iter().map(|&text| text.to_owned()).collect());
        drop(calls);
        (self.script)(number, texts)
    }
}

fn scripted(
    texts_per_request: u32,
    script: impl Fn(usize, &[&str]) -> Result<Embeddings, ModelFailure> + Send + Sync + 'static,
) -> Arc<Scripted> {
    let limits = ModelLimits {
        texts_per_request,
        bytes_per_request: None,
        tokens_per_request: None,
        tokens_per_text: None,
        characters_per_text: Some(40),
    };
    Arc::new(Scripted {
        info: ModelInfo {
            identity: "scripted".into(),
            dimension: Some(2),
            metric: DistanceMetric::Cosine,
            limits,
        },
        calls: Mutex::default(),
        script: Box::new(script),
    })
}

/// A good answer: each vector is (length of the text, 1).
fn answer(texts: &[&str]) -> Embeddings {
    let vectors = texts.iter().flat_map(|text| [text.len() as f32, 1.0]).collect();
    Embeddings { vectors, failed: vec![], tokens: None }
}

fn run(model: &Arc<Scripted>, too_long: TooLong, texts: &[&str]) -> Vec<Embedded> {
    let embedder = Embedder::of_known(model.clone(), 2, 3, too_long);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(embedder.embed(texts, Purpose::Document, &CancellationToken::new())).unwrap()
}

fn sizes(model: &Scripted) -> Vec<usize> {
    model.calls.lock().unwrap().iter().map(Vec::len).collect()
}

fn classes(outcomes: &[Embedded]) -> Vec<Option<(FailureClass, u32)>> {
    outcomes
        .iter()
        .map(|outcome| outcome.as_ref().err().map(|failure| (failure.class, failure.attempts)))
        .collect()
}

#[test]
fn a_pause_keeps_the_batch_whole_and_costs_no_attempt() {
    let model = scripted(25, |number, texts| match number {
        0 => Err(ModelFailure::Throttled {
            retry_after: Some(Duration::from_millis(30)),
            message: "slow down".into(),
        }),
        _ => Ok(answer(texts)),
    });
    let started = std::time::Instant::now();
    let texts = vec!["text"; 47];
    assert!(run(&model, TooLong::Cut, &texts).iter().all(Result::is_ok));
    assert_eq!(sizes(&model), [25, 25, 22]);
    assert!(started.elapsed() >= Duration::from_millis(30), "the pause was not kept");
}

#[test]
fn a_refused_text_is_found_by_halving_and_its_neighbours_go_on() {
    let model = scripted(8, |_, texts| match texts.contains(&"bad") {
        true => Err(ModelFailure::Rejected { message: "no".into() }),
        false => Ok(answer(texts)),
    });
    let texts = ["a", "b", "c", "d", "bad", "f", "g", "h"];
    let outcomes = run(&model, TooLong::Cut, &texts);
    let failed: Vec<usize> = (0..8).filter(|&index| outcomes[index].is_err()).collect();
    assert_eq!(failed, [4]);
    assert_eq!(classes(&outcomes)[4], Some((FailureClass::ModelRejected, 1)));
    assert!(sizes(&model).len() <= 8, "{:?}", sizes(&model));
}

#[test]
fn an_answer_of_the_wrong_size_is_nobodys_vector() {
    let model = scripted(8, |_, texts| {
        let mut embeddings = answer(texts);
        if texts.len() > 1 {
            embeddings.vectors.pop();
        }
        Ok(embeddings)
    });
    let outcomes = run(&model, TooLong::Cut, &["a", "bb", "ccc"]);
    let firsts: Vec<f32> = outcomes.into_iter().map(|outcome| outcome.unwrap().data[0]).collect();
    assert_eq!(firsts, [1.0, 2.0, 3.0]);
}

#[test]
fn a_bad_vector_is_tried_once_more_alone_and_then_set_aside() {
    for bad in [f32::NAN, f32::INFINITY, 0.0] {
        let model = scripted(8, move |_, texts| {
            let mut embeddings = answer(texts);
            for (index, text) in texts.iter().enumerate() {
                if *text == "trust" {
                    embeddings.vectors[2 * index..][..2].fill(bad);
                }
            }
            Ok(embeddings)
        });
        let outcomes = run(&model, TooLong::Cut, &["ok", "trust", "ok2"]);
        assert_eq!(classes(&outcomes), [None, Some((FailureClass::BadVector, 2)), None]);
        assert_eq!(sizes(&model), [3, 1]);
    }
}

#[test]
fn a_bad_vector_that_was_an_accident_is_used_the_second_time() {
    let model = scripted(8, |number, texts| {
        let mut embeddings = answer(texts);
        if number == 0 {
            embeddings.vectors[0] = f32::NAN;
        }
        Ok(embeddings)
    });
    assert!(run(&model, TooLong::Cut, &["a", "b"]).iter().all(Result::is_ok));
}

#[test]
fn a_model_that_is_down_is_waited_for_and_blames_nobody() {
    let model = scripted(1, |number, texts| match number {
        0..8 => Err(ModelFailure::Transient { message: "connection refused".into() }),
        8..10 => Err(ModelFailure::Unusable { message: "401".into() }),
        _ => Ok(answer(texts)),
    });
    assert!(run(&model, TooLong::Cut, &["a"]).iter().all(Result::is_ok));
}

#[test]
fn a_text_that_fails_alone_while_others_succeed_uses_up_its_attempts() {
    let model = scripted(4, |_, texts| match texts.contains(&"bad") {
        true => Err(ModelFailure::Transient { message: "500".into() }),
        false => Ok(answer(texts)),
    });
    let outcomes = run(&model, TooLong::Cut, &["a", "b", "bad", "d"]);
    assert_eq!(classes(&outcomes), [None, None, Some((FailureClass::ModelFailed, 3)), None]);
}

#[test]
fn the_first_and_only_text_is_to_blame_if_the_model_answers_otherwise() {
    let model = scripted(4, |_, texts| match texts.contains(&"bad") {
        true => Err(ModelFailure::Transient { message: "500".into() }),
        false => Ok(answer(texts)),
    });
    assert_eq!(
        classes(&run(&model, TooLong::Cut, &["bad", "b"])),
        [Some((FailureClass::ModelFailed, 3)), None]
    );
    assert_eq!(classes(&run(&model, TooLong::Cut, &["bad"])), [Some((FailureClass::ModelFailed, 3))]);
}

#[test]
fn a_text_over_the_limit_is_cut_and_flagged_or_set_aside() {
    let long = format!("{}語", "a".repeat(40));
    let model = scripted(8, |_, texts| Ok(answer(texts)));
    let outcomes = run(&model, TooLong::Cut, &["short", &long]);
    assert_eq!(outcomes[0].as_ref().unwrap().cut_from, None);
    assert_eq!(outcomes[1].as_ref().unwrap(), &Embedding { data: vec![40.0, 1.0], cut_from: Some(41) });

    let outcomes = run(&model, TooLong::DeadLetter, &["short", &long]);
    assert_eq!(classes(&outcomes), [None, Some((FailureClass::TextTooLong, 1))]);
}

#[test]
fn stopping_ends_a_wait() {
    let model = scripted(1, |_, _| Err(ModelFailure::Unusable { message: "quota".into() }));
    let embedder = Embedder::of_known(model, 2, 3, TooLong::Cut);
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let result = runtime.block_on(async {
        let (embedded, ()) = tokio::join!(embedder.embed(&["a"], Purpose::Document, &stop), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            stop.cancel();
        });
        embedded
    });
    assert_eq!(result, Err(Interrupted::Stopped));
}
