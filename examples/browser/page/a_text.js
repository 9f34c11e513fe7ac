/* a: a text, its tokens, the merges of a word, and windows. */
'use strict';

stations.a = (root, state) => {
    let text = state.text ?? say('a.sample'), word = state.word ?? 'grandmothers';
    const error = errorLine(), wordError = errorLine(), tokens = el('ol', {class: 'chips'}), live = el('p', {'aria-live': 'polite'});
    const steps = el('ol', {class: 'steps'}), outcome = el('p', {'aria-live': 'polite', class: 'note'}), windows = el('div', {});
    const lighthouse = ask('a.merges', 'lighthouse');

    const chip = (answer, path, isNew) => el('li', {class: isNew ? 'new' : null},
        fill(figure(answer, path + '.token', 'bdi'), {class: 'piece'}, []), el('span', {class: 'id'}, figure(answer, path + '.id')));

    const draw = () => {
        if (text.length < 400) keep('text', text);
        const answer = ask('a.encode', text);
        if (!isGood(answer, error, tokens, live, windows)) return;
        tokens.replaceChildren(...answer.tokens.map((_, i) => chip(answer, `tokens.${i}`)));
        live.replaceChildren(...sentence(answer.count ? 'a.live' : 'a.empty', answer), ' ',
            ...(answer.count > answer.shown ? sentence('a.cut', answer) : []));
        windows.replaceChildren(answer.windows.length ? el('table', {'aria-label': say('a.windows')}, el('thead', {}, el('tr', {},
            el('th', {scope: 'colgroup', colspan: 4}, say('a.inputs')), el('th', {scope: 'col'}, say('a.target')))),
            el('tbody', {}, answer.windows.map((window, i) => el('tr', {}, window.map((_, k) =>
                fill(figure(answer, `windows.${i}.${k}`, 'td'), {class: k === window.length - 1 ? 'on' : null}, []))))))
            : paragraph('a.no_windows'), answer.windows_count > answer.windows_shown ? paragraph('a.windows_cut', answer, 'note') : '');
    };

    const drawWord = () => {
        keep('word', word);
        const answer = ask('a.merges', word);
        if (!isGood(answer, wordError, steps, outcome)) return;
        steps.replaceChildren(...answer.steps.map((step, i) => el('li', {class: 'step'},
            el('span', {class: 'note'}, step.merge == null ? say('a.start') : [say('a.step') + ' ', figure(answer, `steps.${i}.merge`)]),
            el('ol', {class: 'chips'}, step.tokens.map((token, k) => chip(answer, `steps.${i}.tokens.${k}`, token.id === step.merge))))));
        outcome.replaceChildren(...sentence(answer.same ? 'a.merged' : 'a.split', answer));
    };

    const area = el('textarea', {rows: 3, spellcheck: 'false', dir: 'auto', oninput: paused(() => {
        text = area.value;
        draw();
    })});
    area.value = text;
    root.append(question('a', () => 2, () => lighthouse), el('div', {class: 'columns'},
        el('div', {}, el('label', {}, say('a.text'), area), el('div', {style: 'height:16px'}), error, el('p', {class: 'note'}, say('a.tokens')), tokens, live),
        el('section', {class: 'card'}, el('h3', {}, say('a.windows')), paragraph('a.windows_text', null, 'note'),
            el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': say('a.windows')}, windows))),
        el('section', {class: 'card'}, el('h3', {}, say('a.word')), el('div', {class: 'controls'},
            textInput(say('a.word_label'), word, paused((value) => {
                word = value;
                drawWord();
            }), {dir: 'auto'})), wordError, steps, outcome, paragraph('a.bytes', null, 'note')), code('a.encode', 'a.merges'));
    draw();
    drawWord();
};
