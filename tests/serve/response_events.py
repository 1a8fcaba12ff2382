# SPDX-License-Identifier: MIT
# Checks the events of a stream of /v1/responses: names, numbers, and what belongs together. It prints their types without
# the prefix, those that repeat once, and the chain of the answer.
#   response_events.py FILE
import json
import sys

types, item, part, text, last = [], None, None, '', None
blocks = [b for b in open(sys.argv[1]).read().split('\n\n') if b.strip() and not b.startswith(':')]
for i, block in enumerate(blocks):
    name, data = block.strip().split('\n')
    event = json.loads(data.removeprefix('data: '))
    kind = event['type'].removeprefix('response.')
    assert name == 'event: ' + event['type'] and event['sequence_number'] == i, block
    if kind == 'output_item.added':
        item, part, text = event['item'], None, ''
        assert item['status'] == 'in_progress' and not item.get('content') and not item.get('arguments'), block
    elif kind == 'content_part.added':
        part = event['part']
        assert part['text'] == '', block
    elif kind.endswith('.delta'):
        text += event['delta']
    elif kind in ('output_text.done', 'reasoning_text.done', 'function_call_arguments.done'):
        assert event.get('text', event.get('arguments')) == text and (part or kind.startswith('function')), block
    elif kind == 'content_part.done':
        assert event['part']['text'] == text, block
    elif kind == 'output_item.done':
        assert event['item']['id'] == item['id'] and item['type'] == event['item']['type'], block
        item = event['item']
    assert event.get('item_id', item and item['id']) == (item and item['id']), block
    if not types or types[-1] != kind:
        types.append(kind)
    last = event
assert last['response']['output'][-1] == item, last
print(' '.join(types), last['response']['bn']['chain'])
