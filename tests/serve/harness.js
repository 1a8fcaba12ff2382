// SPDX-License-Identifier: MIT
// What the clients' tests share. It prints "pass TITLE" or "fail TITLE: REASON" for each test.
import assert from 'node:assert/strict';

export { assert };

export async function test(title, run) {
    try {
        await run();
        console.log(`pass ${title}`);
    } catch (error) {
        console.log(`fail ${title}: ${String(error.message).split('\n').slice(0, 4).join(' ')}`);
    }
}

// For assert.rejects: an error with this status, for which check is true.
export const refused = (status, check = () => true) => (error) => error.status === status && check(error);
