/* bad_vocabularies: changes that turn a golden into a bad file, and the error of each. */
#ifndef TG_TESTS_BAD_VOCABULARIES_H
#define TG_TESTS_BAD_VOCABULARIES_H

/* The first occurrence of `find` is replaced. */
typedef struct bad_file {
    const char *find, *replacement, *message;
} bad_file;

/* tokenizer_split.json */
static const bad_file bad_json[] = {
    {"\"version\":\"1.0\"", "\"version\":\"2.0\"", "byte 1: \"version\" must be \"1.0\""},
    {"\"truncation\":null", "\"truncation\":{\"max_length\":5}", "byte 17: \"truncation\" must be null"},
    {"\"padding\":null", "\"padding\":{}", "byte 35: \"padding\" must be null"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", "byte 416: \"normalizer\" must be null"},
    {"\"post_processor\":null", "\"post_processor\":{\"type\":\"TemplateProcessing\"}", "byte 756: the type \"TemplateProcessing\" is not supported; only \"ByteLevel\" and GPT-2's \"Split\" are"},
    {"\"post_processor\":null", "\"post_processor\":{\"type\":\"ByteLevel\",\"use_regex\":1}", "byte 768: \"use_regex\" must be true or false"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Fuse\"", "byte 771: the type \"Fuse\" is not supported; only \"ByteLevel\" and GPT-2's \"Split\" are"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Split\"", "byte 753: \"decoder\" must be null or a ByteLevel"},
    {"\"padding\":null", "\"truncation\":null", "byte 35: the file has \"truncation\" twice"},
    {"\"padding\":null", "\"stuffing\":null", "byte 35: the file has the unknown member \"stuffing\""},
    {"{\"type\":\"Sequence\"", "null,\"x\":{\"type\":\"Sequence\"", "byte 433: \"pre_tokenizer\" must be a ByteLevel with use_regex"},
    {"'s|'t|'re", "'S|'t|'re", "byte 469: \"pretokenizers\" must be a Split by GPT-2's pattern, Isolated, and a ByteLevel without use_regex"},
    {"\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\"", "byte 469: \"pretokenizers\" must be a Split by GPT-2's pattern, Isolated, and a ByteLevel without use_regex"},
    {"\"invert\":false", "\"invert\":true", "byte 469: \"pretokenizers\" must be a Split by GPT-2's pattern, Isolated, and a ByteLevel without use_regex"},
    {"\"pattern\":{\"Regex\"", "\"pattern\":{\"String\"", "byte 513: pattern has the unknown member \"String\""},
    {"\"add_prefix_space\":false", "\"add_prefix_space\":true", "byte 469: \"pretokenizers\" must be a Split by GPT-2's pattern, Isolated, and a ByteLevel without use_regex"},
    {"\"use_regex\":false", "\"use_regex\":true", "byte 469: \"pretokenizers\" must be a Split by GPT-2's pattern, Isolated, and a ByteLevel without use_regex"},
    {"\"lstrip\":false", "\"lstrip\":true", "byte 120: \"lstrip\" must be false"},
    {"\"rstrip\":false", "\"rstrip\":1", "byte 135: \"rstrip\" must be false"},
    {"\"single_word\":false", "\"single_word\":true", "byte 100: \"single_word\" must be false"},
    {"\"content\":\"<|pad|>\"", "\"content\":\"\"", "byte 205: the token is empty"},
    {"\"id\":290", "\"id\":-290", "byte 191: expected a whole number, found '-'"},
    {"\"id\":290", "\"id\":1", "byte 1044: the id 1 of \"!\" is also that of \"<|pad|>\""},
    {"\"id\":290", "\"id\":0", "byte 203: the id 0 of \"<|pad|>\" is also that of \"<|endoftext|>\""},
    {"\"id\":290", "\"id\":290.0", "byte 194: expected ',' or '}', found '.'"},
    {"\"id\":290", "\"id\":2147483647", "byte 212: the id 2147483647 of \"<|pad|>\" is above 2147483646"},
    {"\"id\":290", "\"id\":99999999999999999999", "byte 191: the number is larger than 2^63 - 1"},
    {"\"id\":290,", "", "byte 185: an added token has no \"id\""},
    {"\"type\":\"BPE\"", "\"type\":\"WordPiece\"", "byte 854: \"type\" must be \"BPE\""},
    {"\"dropout\":null", "\"dropout\":0.1", "byte 867: \"dropout\" must be null"},
    {"\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"", "byte 899: \"continuing_subword_prefix\" must be null or \"\""},
    {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", "byte 932: \"end_of_word_suffix\" must be null or \"\""},
    {"\"byte_fallback\":false", "\"byte_fallback\":null", "byte 975: \"byte_fallback\" must be true or false"},
    {"\"ignore_merges\":false", "\"ignore_merges\":true", "byte 997: \"ignore_merges\" must be false"},
    {"\"vocab\":{", "\"vocab\":[],\"x\":{", "byte 1027: expected '{', found '['"},
    {"\"!\":1", "\"\\u2581\":1", "byte 1046: the token \"\u2581\" has a character that is not that of a byte"},
    {"\"!\":1", "\"\\u00e9\":1", "byte 2336: the token of id 166 is also that of id 1"},
    {"\"!\":1", "\" \":1", "byte 1046: the token \" \" has a character that is not that of a byte"},
    {"\"!\":1", "\"!!\":1", "byte 0: no token is the byte 0x21; all 256 bytes must be tokens"},
    {"\"!\":1", "\"\":1", "byte 1046: the token is empty"},
    {"\"!\":1", "\"!\":-1", "byte 1050: expected a whole number, found '-'"},
    {"\"!\":1", "\"!\":\"1\"", "byte 1050: expected a whole number, found '\"'"},
    {"\"!\":1", "\"!\":01", "byte 1050: the number begins with a 0"},
    {"\"!\":1", "\"!\":2", "byte 1052: the id 2 of \"\"\" is also that of \"!\""},
    {"\"!\":1", "\"!\":292", "byte 0: no token has the id 1; the ids of 292 tokens are 0 to 291"},
    {"\"!\":1", "\"\\ud800\":1", "byte 1047: the escape is not a Unicode character"},
    {"\"!\":1", "\"!\\u0000\":1", "byte 1048: a string contains a NUL"},
    {"\"!\":1", "\"!\":1,\"!!\":700", "byte 1052: the id 700 of \"!!\"; the ids of at most 294 tokens are below 294"},
    {"\"!\":1,", "", "byte 0: no token has the id 1; the ids of 291 tokens are 0 to 290"},
    {"\"<|endoftext|>\":0", "\"<|other|>\":0", "byte 1028: the id 0 of \"<|other|>\" is also that of \"<|endoftext|>\""},
    {"\"merges\":[[", "\"merges\":[[\"the\"],[", "byte 3502: the number of tokens of a merge is 1; it must be 2"},
    {"\"merges\":[[", "\"merges\":[\"the\",[", "byte 3502: the merge \"the\" is not two tokens and one space"},
    {"\"merges\":[[", "\"merges\":[\"a b c\",[", "byte 3502: the merge \"a b c\" is not two tokens and one space"},
    {"\"merges\":[[", "\"merges\":[\"a zz\",[", "byte 3502: the token \"zz\" is not in the vocabulary"},
    {"\"merges\":[[", "\"merges\":[\"a b\",[", "byte 3502: the merge of \"a\" and \"b\" gives a token that is not in the vocabulary"},
    {"\"merges\":[[", "\"merges\":[[\"a\",\"q\",\"u\"],[", "byte 3502: the number of tokens of a merge is 3; it must be 2"},
    {"\"merges\":[[", "\"merges\":[[\"a\",\"\"],[", "byte 3507: the token is empty"},
    {"\"merges\":[[\"", "\"merges\":[[\"h\",\"e\"],[\"h\",\"e\"],[\"", "byte 3513: the merge of \"h\" and \"e\" was given before"},
    {"\"merges\":", "\"x\":", "byte 3492: model has the unknown member \"x\""},
};

/* encoder.json */
static const bad_file bad_ids[] = {
    {"{", "[", "byte 0: expected '{', found '['"},
    {"\"!\": 1", "\"!\": 2", "byte 29: the id 2 of \"\"\" is also that of \"!\""},
    {"\"!\": 1", "\"!\": 300", "byte 0: no token has the id 1; the ids of 300 tokens are 0 to 299"},
    {"\"!\": 1", "\"!\": null", "byte 26: expected a whole number, found 'n'"},
    {"\"!\": 1, ", "", "byte 0: no token has the id 1; the ids of 299 tokens are 0 to 298"},
    {"\"!\": 1", "\"!\": 1,", "byte 28: expected '\"', found ','"},
    {"\"<|endoftext|>\"", "<|endoftext|>", "byte 1: expected '\"', found '<'"},
};

/* ranks.tiktoken */
static const bad_file bad_ranks[] = {
    {"IQ== 33", "IQ= 33", "line 34: the token \"IQ=\" is not base64"},
    {"IQ== 33", "IR== 33", "line 34: the token \"IR==\" is not base64"},
    {"IQ== 33", "I!== 33", "line 34: the token \"I!==\" is not base64"},
    {"IQ== 33", "IQ==  33", "line 34: \"IQ==  33\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ==33", "line 34: \"IQ==33\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== +33", "line 34: \"IQ== +33\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== 033", "line 34: \"IQ== 033\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== 0x21", "line 34: \"IQ== 0x21\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== -1", "line 34: \"IQ== -1\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== 2147483647", "line 34: \"IQ== 2147483647\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== 99999999999", "line 34: \"IQ== 99999999999\" is not a token in base64, a space and a rank below 2147483647"},
    {"IQ== 33", "IQ== 300", "line 34: rank 300; the ranks of 299 tokens are at most 299, because only that of <|endoftext|> is left out"},
    {"IQ== 33", "IQ== 34", "line 35: rank 34 was given before, in line 34"},
    {"IQ== 33", "Ig== 33", "line 35: the token of rank 34 is also that of rank 33"},
    {"IQ== 33\n", "ISE= 33\n", "no token is the byte 0x21; all 256 bytes must be tokens"},
    {"IQ== 33\n", "", "line 298: rank 299; the ranks of 298 tokens are at most 298, because only that of <|endoftext|> is left out"},
    {"IQ== 33", "IQ== 33\r", "line 34: \"IQ== 33\r\" is not a token"},
    {"IQ== 33", " 33", "line 34: the token \"\" is not base64"},
    {"AA== 0", "AA==0", "line 1: \"AA==0\" is neither \"#version: 0.2\" (merges), nor '{' (JSON), nor a token in base64, a space and a rank"},
};

#endif
