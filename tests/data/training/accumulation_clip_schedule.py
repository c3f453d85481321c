# expected: setup FDL423
# The loop of many fine-tuning scripts: accumulate, clip, update, move the rate, count.
import torch
import torch.nn as nn

torch.manual_seed(0)
loader = [(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(6)]
model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1.0 / (1 + s))
criterion = nn.CrossEntropyLoss()
gradient_accumulation_steps = 2
global_step, tr_loss = 0, 0.0
for epoch in range(3):
    for step, batch in enumerate(loader):
        model.train()
        inputs, labels = batch
        loss = criterion(model(inputs), labels)
        if gradient_accumulation_steps > 1:
            loss = loss / gradient_accumulation_steps
        loss.backward()
        tr_loss += loss.item()
        if (step + 1) % gradient_accumulation_steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()  # Update learning rate schedule
            model.zero_grad()
            global_step += 1
            print(global_step, tr_loss / global_step, scheduler.get_last_lr())
