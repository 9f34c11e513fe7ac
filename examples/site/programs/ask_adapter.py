"""Asks the model `small` with the adapter that tapegrad has written."""
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('small')
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained('small'), 'lora')
question = [{'role': 'user', 'content': 'What is the capital of France?'}]
prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors='pt', return_dict=True)
ids = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0]
print(tokenizer.decode(ids[prompt['input_ids'].shape[1]:], skip_special_tokens=True))
