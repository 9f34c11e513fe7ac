/* c: positions. A sum, a sentence in two orders, and a heat map for each kind. */
'use strict';

stations.c = (root, state) => {
    const kinds = [['c.absolute', [0, 1]], ['c.relative', [2, 3, 4, 5, 6, 7, 8, 9]], ['c.no_kind', [10]]];
    const names = ['learned', 'sinusoidal', 'rotary', 'ALiBi', 'T5', 'Shaw', 'Transformer-XL', 'relative key', 'relative key query', 'DeBERTa', 'none'];
    const words = ['The', 'cat', 'sat', 'on', 'the', 'mat'];
    let added = state.added === '1' ? '1' : '0', kind = kinds.flatMap(([, list]) => list).includes(Number(state.kind)) ? Number(state.kind) : 1;
    const sum = ask('c.sum'), both = ['0', '1'].map((on) => ask('c.sentence ' + on));
    const others = {without: [both[0], 'difference'], with: [both[1], 'difference']};

    const row = (path, label) => el('span', {}, el('span', {class: 'note'}, label), el('span', {class: 'mono'}, '[',
        sum[path].map((_, k) => [k ? ', ' : '', figure(sum, `${path}.${k}`)]), ']'));
    const tables = el('div', {class: 'pair'}), verdict = el('p', {'aria-live': 'polite', class: 'note', style: 'margin:16px 0'});

    const drawSentence = () => {
        const answer = both[Number(added)];
        keep('added', added);
        tables.replaceChildren(...[['first', [0, 1, 2, 3, 4, 5]], ['second', [0, 5, 2, 3, 4, 1]]].map(([path, order]) =>
            el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': say('c.' + path)}, el('h3', {}, say('c.' + path)), el('table', {'aria-label': say('c.' + path)}, el('tbody', {}, order.map((word, i) =>
                el('tr', {}, el('th', {scope: 'row'}, word === 1 || word === 5 ? el('strong', {}, words[word]) : words[word]),
                    answer[path][i].map((_, k) => fill(figure(answer, `${path}.${i}.${k}`, 'td'),
                        {class: path === 'second' && answer.differs[i] ? 'on' : null}, [])))))))));
        verdict.replaceChildren(...sentence(added === '1' ? 'c.differs' : 'c.same', answer));
    };

    const heat = el('div', {class: 'pair'}), about = el('div', {'aria-live': 'polite'});
    const select = el('select', {onchange: () => {
        kind = Number(select.value);
        drawHeat();
    }}, kinds.map(([group, list]) => el('optgroup', {label: say(group)}, list.map((k) => el('option', {value: k, selected: k === kind}, names[k])))));

    /* One rect for each number; the colors come from the numbers of the answer. */
    const picture = (rows, label, color, key) => el('div', {style: 'flex:1 1 240px;max-width:340px'}, el('p', {class: 'note'}, label),
        svg('svg', {viewBox: `0 0 ${rows[0].length} ${rows.length}`, class: 'map', role: 'img', 'aria-label': label},
            rows.flatMap((values, i) => values.map((value, k) => svg('rect', {x: k, y: i, width: 1.02, height: 1.02, style: 'fill:' + color(value)})))), key);

    const drawHeat = () => {
        keep('kind', kind);
        const answer = ask('c.map ' + kind);
        if (answer.error) return about.replaceChildren(el('p', {class: 'error'}, answer.error));
        const size = answer.is_absolute ? Math.max(...answer.table.flat().map(Math.abs)) : 1;
        const low = Math.min(...answer.weights.flat()), high = Math.max(...answer.weights.flat());
        heat.replaceChildren(picture(answer.weights, say('c.map'), (value) => tint(answer.is_flat ? .4 : (value - low) / (high - low), 100),
                answer.is_flat ? [] : colorKey(answer, 'least', 'most', 'plain')),
            ...(answer.is_absolute ? [picture(answer.table, say('c.table'), (value) => tint(value / size, 100),
                colorKey(answer, 'table_least', 'table_most', 'signed'))] : []));
        about.replaceChildren(paragraph('c.kind' + kind), answer.is_flat ? paragraph('c.flat', answer)
            : paragraph(answer.is_absolute ? 'c.absolute_why' : 'c.relative_why'),
            answer.is_flat ? '' : paragraph('c.scales', null, 'note'));
    };

    root.append(question('c', () => 1, () => both[0], others),
        el('section', {class: 'card'}, el('h3', {}, say('c.sum')), paragraph('c.sum_text'), el('div', {class: 'equation'},
            row('token', say('c.token')), el('span', {}, '+'), row('position', say('c.position')), el('span', {}, '='), row('sum', say('c.model_input')))),
        el('section', {class: 'card'}, el('h3', {}, say('c.sentence')), el('div', {class: 'controls'},
            choose(say('c.toggle'), ['0', '1'], [say('c.off'), say('c.on')], added, (value) => {
                added = value;
                drawSentence();
            })), tables, verdict, el('p', {}, sentence('c.reason', both[0], others))),
        el('section', {class: 'card'}, el('h3', {}, say('c.kinds')), paragraph('c.kinds_text'), el('div', {class: 'controls'},
            el('label', {}, say('c.kind'), select)), heat, about), code('c.sum', 'c.sentence', 'c.map'));
    drawSentence();
    drawHeat();
};
