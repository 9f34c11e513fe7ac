/* f: break it. Two tables that should be equal, and what the check says. */
'use strict';

stations.f = (root, state) => {
    const variants = ['0', '1', '2', '3', '4'], names = ['right', 'sign', 'assign', 'row', 'column'];
    let ids = state.ids ?? '2 3 5 2', variant = variants.includes(state.variant) ? state.variant : '2', answer = null;
    const error = errorLine(), result = el('div', {'aria-live': 'polite'}), tables = el('div', {class: 'card'});
    const lines = el('div', {});
    const assigned = ask('f.check 2', '2 3 5 2');

    const draw = () => {
        keep('ids', ids);
        keep('variant', variant);
        const found = ask('f.check ' + variant, ids);
        const good = isGood(found, error, tables, result);
        lines.replaceChildren(code('f.' + names[variant], 'f.check'));
        if (!good) return;
        answer = found;
        const shown = (path, label) => el('div', {}, el('h3', {}, label), el('table', {'aria-label': label}, el('tbody', {},
            answer[path].map((row, i) => el('tr', {}, el('th', {scope: 'row'}, String(i)), row.map((_, k) => fill(figure(answer, `${path}.${i}.${k}`, 'td'),
                {class: [answer.wrong[i][k] ? 'wrong' : '', answer.entry === 3 * i + k ? 'named' : ''].join(' ').trim() || null}, [])))))));
        tables.replaceChildren(el('div', {class: 'pair'}, shown('analytic', say('f.analytic')), shown('numeric', say('f.numeric'))),
            paragraph(answer.wrong_entries ? 'f.wrong' : answer.passed ? 'f.equal' : 'f.only_checked', answer, 'note'));
        result.replaceChildren(el('p', {class: 'check ' + (answer.passed ? 'good' : 'bad')}, el('strong', {}, say(answer.passed ? 'f.passed' : 'f.failed')),
            el('br'), figure(answer, 'text')), answer.passed ? '' : paragraph(names[variant] === 'assign' ? 'f.message_assign' : 'f.message', null, 'note'),
            paragraph('f.why_' + names[variant], answer));
    };

    const input = textInput(say('b.ids'), ids, paused((value) => {
        ids = value;
        draw();
    }));
    root.append(question('f', () => 1, () => assigned), el('div', {class: 'controls'},
        choose(say('f.variant'), variants, names.map((name) => say('f.' + name)), variant, (value) => {
            variant = value;
            draw();
        }), input), error, el('div', {class: 'columns'}, tables, result), lines);
    draw();
};
