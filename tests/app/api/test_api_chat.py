"""app.api.chat: OpenAI's form, the slash form of the skills, and the official client's chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.app.live import StreamingEngine, client_of, renewed
from tests.app.scripted import ANSWERS
from tests.samples import data_url, picture


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestClient, StreamingEngine]]:
    engine = StreamingEngine()
    with client_of(engine) as client:
        yield client, engine


@pytest.fixture
def engine(served: tuple[TestClient, StreamingEngine]) -> StreamingEngine:
    return renewed(served[1])


@pytest.fixture
def client(served: tuple[TestClient, StreamingEngine], engine: StreamingEngine) -> TestClient:
    return served[0]


def image_part(url: str | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url or data_url()}}


def user(text: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def ask(client: TestClient, *messages: Any, **more: Any) -> Any:
    return client.post("/v1/chat/completions", json={"model": "photon-tiny", "messages": list(messages), **more})


def test_a_question_is_answered_in_openais_form(client: TestClient, engine: StreamingEngine) -> None:
    answer = ask(client, user("How many?", image_part())).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "photon-tiny"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["metrics"]["tokens"] == 9
    (choice,) = answer["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Two cats — 猫."},
        "finish_reason": "stop",
    }
    assert engine.calls[0].object == "How many?"
    assert engine.calls[0].shape == (40, 60, 3)


def test_content_may_be_plain_text_and_the_url_a_plain_string(client: TestClient, engine: StreamingEngine) -> None:
    assert ask(client, {"role": "user", "content": "Why?"}).status_code == 200
    assert ask(client, user("How?", {"type": "image_url", "image_url": data_url()})).status_code == 200
    assert [call.shape for call in engine.calls] == [(1, 1, 3), (40, 60, 3)]


def test_the_last_question_is_asked_on_the_last_picture(client: TestClient, engine: StreamingEngine) -> None:
    import io

    buffer = io.BytesIO()
    picture(10, 8).save(buffer, format="PNG")
    ask(
        client,
        {"role": "system", "content": "Be brief."},
        user("First?", image_part()),
        {"role": "assistant", "content": "Yes."},
        user("Second?", image_part(data_url(buffer.getvalue()))),
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Third?"},
    )
    assert [(call.object, call.shape) for call in engine.calls] == [("Third?", (8, 10, 3))]


@pytest.mark.parametrize("skill", ["point", "detect", "segment"])
@pytest.mark.parametrize("space", [" ", "", "\n"])
def test_the_slash_form_runs_a_skill(client: TestClient, engine: StreamingEngine, skill: str, space: str) -> None:
    text = f'/{skill}{space}{{"object": "cat"}}'
    message = ask(client, user(text, image_part())).json()["choices"][0]["message"]
    assert json.loads(message["content"]) == ANSWERS[skill]
    assert (engine.calls[0].verb, engine.calls[0].object) == (skill, "cat")


def test_the_slash_form_takes_the_skills_options(client: TestClient, engine: StreamingEngine) -> None:
    text = '/detect {"object": "cat", "settings": {"max_objects": 2}, "spatial_refs": [[0.5, 0.5]]}'
    ask(client, user(text, image_part()), temperature=0.5, pipelined=False)
    assert engine.calls[0].options == {
        "settings": {"temperature": 0.5, "max_objects": 2},
        "spatial_refs": [[0.5, 0.5]],
        "pipelined": False,
    }


def test_caption_and_query_have_a_slash_form_too(client: TestClient, engine: StreamingEngine) -> None:
    ask(client, user("/caption", image_part()))
    ask(client, user('/caption {"length": "short"}', image_part()))
    ask(client, user('/query {"question": "/detect what?"}', image_part()))
    assert [(call.verb, call.object) for call in engine.calls] == [
        ("caption", "normal"),
        ("caption", "short"),
        ("query", "/detect what?"),
    ]


def test_other_text_with_a_slash_is_a_question(client: TestClient, engine: StreamingEngine) -> None:
    ask(client, user("/detective stories?", image_part()))
    ask(client, user("Use /detect {}", image_part()))
    assert [call.object for call in engine.calls] == ["/detective stories?", "Use /detect {}"]


def test_openais_settings_become_ours(client: TestClient, engine: StreamingEngine) -> None:
    ask(client, user("How many?"), temperature=1, top_p=0.9, max_completion_tokens=9, reasoning=True, seed=3)
    assert engine.calls[0].options == {
        "settings": {"temperature": 1, "top_p": 0.9, "max_tokens": 9, "seed": 3},
        "reasoning": True,
    }


def test_an_answer_cut_by_the_limit_says_so(client: TestClient) -> None:
    assert ask(client, user("How many?"), max_tokens=9).json()["choices"][0]["finish_reason"] == "length"
    assert ask(client, user("How many?"), max_tokens=10).json()["choices"][0]["finish_reason"] == "stop"


def test_thoughts_stand_beside_the_answer(client: TestClient) -> None:
    message = ask(client, user("How many?"), reasoning=True).json()["choices"][0]["message"]
    assert message["reasoning"] == "Let me see."
    assert message["reasoning_details"] == {"grounding": []}


def test_streams_end_with_a_reason_and_done(client: TestClient) -> None:
    lines = [line[6:] for line in ask(client, user("How many?"), stream=True).text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["Two ", "cats ", "— 猫.", None]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]


def test_a_skill_streams_its_json_in_one_piece(client: TestClient) -> None:
    text = '/segment {"object": "cat"}'
    lines = [line[6:] for line in ask(client, user(text, image_part()), stream=True).text.split("\n\n") if line]
    assert json.loads(json.loads(lines[0])["choices"][0]["delta"]["content"]) == ANSWERS["segment"]
    assert (len(lines), lines[-1]) == (3, "[DONE]")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (None, "'messages' is missing"),
        ([], "'messages' is missing or empty"),
        ("How many?", "a list of messages"),
        (["How many?"], "Message 0 has no role"),
        ([{"role": "robot", "content": "x"}], "Message 0 has no role that is known"),
        ([{"role": "system", "content": "x"}], "No message has the role 'user'"),
        ([{"role": "user", "content": None}], "neither text nor a list"),
        ([{"role": "user"}], "neither text nor a list"),
        ([{"role": "user", "content": []}], "has no text"),
        ([{"role": "user", "content": "  "}], "has no text"),
        ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "is a JSON number"),
        ([{"role": "user", "content": [{"type": "audio"}]}], "no type that is known"),
        ([{"role": "user", "content": ["hello"]}], "no type that is known"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "has no URL"),
        ([user("x", image_part("https://example.com/a.jpg"))], "a data URL is expected"),
        ([user("/detect cat", image_part())], 'a JSON object is expected, for example /detect {"object": "..."}'),
        ([user('/detect {"object": "cat"', image_part())], "a JSON object is expected"),
        ([user('/detect ["cat"]', image_part())], "a JSON object is expected"),
        ([user("/detect", image_part())], "'object' is missing"),
        ([user('/detect {"objekt": "cat"}', image_part())], "does not take 'objekt'"),
        ([user('/detect {"object": "cat", "image_url": "x"}', image_part())], "does not take 'image_url'"),
        ([user('/detect {"object": "cat", "settings": 5}', image_part())], "settings after /detect"),
        ([user('/detect {"object": "xyzzy"}', image_part())], "does not know the word"),
        ([user('/detect {"object": "cat"}')], "image is missing"),
    ],
)
def test_bad_conversations_are_400_with_a_sentence(client: TestClient, messages: Any, words: str) -> None:
    response = client.post("/v1/chat/completions", json={"messages": messages})
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize("n", [0, 2, "1"])
def test_one_answer_a_request(client: TestClient, n: Any) -> None:
    response = ask(client, user("How many?"), n=n)
    assert (response.status_code, "one answer" in response.json()["error"]["message"]) == (400, True)
    assert ask(client, user("How many?"), n=1).status_code == 200


def test_another_models_name_is_refused_but_not_what_unnamed_clients_send(client: TestClient) -> None:
    assert ask(client, user("How many?"), model="gpt-4o").status_code == 400
    for name in (None, "moondream3-preview", "photon-tiny"):
        assert ask(client, user("How many?"), model=name).json()["model"] == "photon-tiny"


def test_usage_counts_the_tokens_of_the_request(client: TestClient) -> None:
    used = {"prompt_tokens": 150, "completion_tokens": 9, "total_tokens": 159}
    assert ask(client, user("How many?")).json()["usage"] == used
    assert ask(client, user('/detect {"object": "cat"}', image_part())).json()["usage"] == used


@pytest.mark.parametrize("text", ["How many?", '/detect {"object": "cat"}'])
def test_a_stream_ends_with_its_usage_where_that_is_asked_for(client: TestClient, text: str) -> None:
    def chunks(**more: Any) -> list[dict[str, Any]]:
        lines = [line[6:] for line in ask(client, user(text, image_part()), stream=True, **more).text.split("\n\n")]
        assert lines[-2:] == ["[DONE]", ""]
        return [json.loads(line) for line in lines[:-2]]

    *others, last = chunks(stream_options={"include_usage": True})
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 159)
    assert all("usage" not in chunk for chunk in others)
    for options in ({}, {"include_usage": False}, None):
        assert all("usage" not in chunk for chunk in chunks(stream_options=options))


@pytest.mark.parametrize("options", ["yes", {"include_usage": 1}])
def test_stream_options_that_are_none_are_refused(client: TestClient, options: Any) -> None:
    assert ask(client, user("How many?"), stream=True, stream_options=options).status_code == 400
