"""What an input brings about has bounds."""

from holdfast_ryu.outcome import Answer, Outcome

LARGEST = bytes(16 << 20)


def test_answers_fit_into_a_frame() -> None:
    made = Outcome()
    for number, (header, body) in enumerate([("", LARGEST), ("x", LARGEST), ("", LARGEST), ("", b"small")]):
        made.answers.append(Answer(number, 200, [("", header)], body))
    answers = made.take().answers
    assert [(answer.request_id, answer.status) for answer in answers] == [(0, 200), (1, 503), (2, 200), (3, 503)]
